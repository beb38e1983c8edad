// One form for every action: its arguments, its command-line twin, a dry run where there is one, and a name to type.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useRef, useState, type ReactElement } from "react";
import { CallError, send } from "../api/calls";
import { Command } from "../parts/Copy";
import { Dialog } from "../parts/Dialog";
import { Problem } from "../parts/Notes";
import { Shape } from "../parts/State";
import { useActions, type Action, type ActionArgument } from "../state/asking";
import { closeAction, openAction, useOpened } from "./opened";
import { argumentsOf, missing, type Filled } from "./values";
import { usePast } from "../state/moment";

interface Done {
  summary: string;
  cli: string;
  dry_run: boolean;
  result: unknown;
}

export function ActionDialogs(): ReactElement | null {
  const opened = useOpened();
  const action = useActions().find((each) => each.verb === opened?.verb);
  if (opened === null || action === undefined) return null;
  return <ActionDialog key={opened.verb} action={action} given={opened.given} />;
}

function useTwin(action: Action, filled: Filled): string {
  const given = argumentsOf(action, filled);
  const asked = useQuery({
    queryKey: ["cli", action.verb, given],
    queryFn: () => send<{ cli: string }>(`/api/actions/${action.verb}/cli`, given),
    enabled: missing(action, filled).length === 0,
    placeholderData: (before) => before,
  });
  return missing(action, filled).length === 0 ? (asked.data?.cli ?? "") : "";
}

function useRun(action: Action, filled: Filled, confirm: string) {
  // One id for each thing that was asked for: a second click, or a retry, is the same request.
  const asked = useRef({ body: "", id: "" });
  return useMutation<Done, Error, boolean>({
    mutationFn: async (dry) => {
      const body = { ...argumentsOf(action, filled), ...(dry ? { dry_run: true } : {}), ...(confirm && !dry ? { confirm } : {}) };
      const text = JSON.stringify(body);
      if (asked.current.body !== text) asked.current = { body: text, id: crypto.randomUUID() };
      return send<Done>(`/api/actions/${action.verb}`, { ...body, request_id: asked.current.id });
    },
  });
}

function ActionDialog({ action, given }: { action: Action; given: Filled }): ReactElement {
  const [filled, setFilled] = useState<Filled>(given);
  const [confirm, setConfirm] = useState("");
  const run = useRun(action, filled, confirm);
  const twin = useTwin(action, filled);
  const lacking = missing(action, filled);
  const wanted = action.destructive && action.confirms ? String(filled[action.confirms] ?? "") : "";
  const ready = lacking.length === 0 && confirm === wanted;
  const done = run.data && !run.data.dry_run;
  const change = (name: string, next: string | boolean): void => {
    setFilled({ ...filled, [name]: next });
    run.reset();
  };
  return (
    <Dialog title={action.verb.replaceAll("-", " ").replace(/^./, (first) => first.toUpperCase())} onClose={closeAction}>
      <form
        className="action"
        onSubmit={(event) => {
          event.preventDefault();
          if (ready && !run.isPending) run.mutate(false);
        }}
      >
        <p className="faint">{action.about}</p>
        {action.arguments.map((each) => (
          <Field key={each.name} argument={each} value={filled[each.name] ?? ""} onChange={(next) => change(each.name, next)} />
        ))}
        {wanted && !done ? (
          <label className="field">
            <span>Type “{wanted}” to confirm</span>
            <input value={confirm} autoComplete="off" onChange={(event) => setConfirm(event.target.value)} />
          </label>
        ) : null}
        {twin ? <Command text={twin} /> : null}
        {run.error instanceof CallError ? <Problem fault={run.error.fault} /> : null}
        {run.data ? <Outcome done={run.data} /> : null}
        <div className="buttons">
          <button type="button" onClick={closeAction}>
            {done ? "Close" : "Cancel"}
          </button>
          {action.dry_run && !done ? (
            <button type="button" disabled={lacking.length > 0 || run.isPending} onClick={() => run.mutate(true)}>
              Dry run
            </button>
          ) : null}
          {done ? null : (
            <button type="submit" className={action.destructive ? "danger" : "primary"} disabled={!ready || run.isPending}>
              {run.isPending ? "Working…" : action.verb.replaceAll("-", " ")}
            </button>
          )}
        </div>
      </form>
    </Dialog>
  );
}

function Outcome({ done }: { done: Done }): ReactElement {
  return (
    <div className={`outcome tone-${done.dry_run ? "busy" : "good"}`} role="status">
      <p>
        <Shape tone={done.dry_run ? "busy" : "good"} /> {done.dry_run ? "Dry run, nothing was changed: " : ""}
        {done.summary}
      </p>
      <details>
        <summary>Answer</summary>
        <pre tabIndex={0}>{JSON.stringify(done.result, null, 2)}</pre>
      </details>
    </div>
  );
}

function Field(props: { argument: ActionArgument; value: string | boolean; onChange: (next: string | boolean) => void }): ReactElement {
  const { name, type, required, about } = props.argument;
  if (type === "flag") {
    return (
      <label className="field check">
        <input type="checkbox" checked={props.value === true} onChange={(event) => props.onChange(event.target.checked)} />
        <span>
          {name.replaceAll("_", " ")} <span className="faint">{about}</span>
        </span>
      </label>
    );
  }
  return (
    <label className="field">
      <span>
        {name.replaceAll("_", " ")}
        {required ? " (needed)" : ""} <span className="faint">{about}</span>
      </span>
      <input
        value={String(props.value)}
        inputMode={type === "number" ? "decimal" : "text"}
        required={required}
        autoComplete="off"
        spellCheck={false}
        onChange={(event) => props.onChange(event.target.value)}
      />
    </label>
  );
}

/** A button that begins an action, filled in as far as the place knows. */
export function ActionButton(props: { verb: string; given?: Filled; label: string; small?: boolean; what?: string }): ReactElement {
  const { verb, given = {}, label, small = false, what } = props;
  const past = usePast();
  return (
    <button type="button" aria-haspopup="dialog" disabled={past} {...(past ? { title: "The past cannot be changed. Go back to now first." } : {})} className={small ? "small" : ""} {...(what ? { "aria-label": `${label} ${what}` } : {})} onClick={() => openAction(verb, given)}>
      {label}
    </button>
  );
}
