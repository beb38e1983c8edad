// What a person filled in, as the arguments that the server takes. Pure.
import type { Action, ActionArgument } from "../state/asking";

export type Filled = Readonly<Record<string, string | boolean>>;

function argument(kind: ActionArgument["type"], value: string | boolean): unknown {
  if (kind === "flag") return value === true ? true : undefined;
  const text = String(value).trim();
  if (text === "") return undefined;
  if (kind === "number") return Number(text);
  if (kind === "list") return text.split(/[\s,]+/).filter(Boolean);
  return text;
}

/** Leaves out what is empty. A number that is none stays text, so that the server names the field. */
export function argumentsOf(action: Action, filled: Filled): Record<string, unknown> {
  const given: Record<string, unknown> = {};
  for (const { name, type } of action.arguments) {
    const found = argument(type, filled[name] ?? "");
    if (found !== undefined) given[name] = typeof found === "number" && Number.isNaN(found) ? filled[name] : found;
  }
  return given;
}

/** Returns the names of required arguments that are empty. */
export function missing(action: Action, filled: Filled): string[] {
  const given = argumentsOf(action, filled);
  return action.arguments.filter((each) => each.required && !(each.name in given)).map((each) => each.name);
}
