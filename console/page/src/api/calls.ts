// Calls to the console's server. Errors carry what the mesh said: reason, field and remedy.
import type { Fault } from "./parts";

export interface Session {
  signed_in: boolean;
  principal?: string;
  how?: string;
  csrf?: string;
  mesh?: string;
  sign_in: string[];
  provider?: string;
  problem?: Fault;
  remedy?: string;
  version: string;
}

export class CallError extends Error {
  constructor(
    readonly fault: Fault,
    readonly cli: string = "",
  ) {
    super(fault.message);
  }
}

let csrf = "";

/** Every change carries the session's token, which other sites cannot read. */
export function rememberCsrf(session: Session): void {
  csrf = session.csrf ?? "";
}

/** Asks without headers of its own: a preloaded answer is used for the same request alone. */
export async function ask<T>(url: string): Promise<T> {
  return (await answered(fetch(url))) as T;
}

export async function send<T>(url: string, body: unknown, method = "POST"): Promise<T> {
  const headers = { "Content-Type": "application/json", "X-Braid-Csrf": csrf };
  return (await answered(fetch(url, { method, headers, body: JSON.stringify(body) }))) as T;
}

async function answered(call: Promise<Response>): Promise<unknown> {
  let response: Response;
  try {
    response = await call;
  } catch {
    throw new CallError(fault(0, "UNREACHABLE", "The console's server does not answer.", "Check that it runs: braid dev status"));
  }
  if (response.status === 204) return null;
  const body = (await response.json().catch(() => null)) as { error?: Fault; cli?: string } | null;
  if (response.ok) return body;
  throw new CallError(body?.error ?? fault(response.status, "UNKNOWN", `The server answered ${response.status}.`, ""), body?.cli);
}

function fault(status: number, reason: string, message: string, remedy: string): Fault {
  return { status, reason, message, field: "", remedy };
}

/** Returns `?a=b` of the parameters that are not empty, in the order given. */
export function query(params: Readonly<Record<string, string | undefined>>): string {
  const set = Object.entries(params).filter((entry): entry is [string, string] => Boolean(entry[1]));
  return set.length === 0 ? "" : `?${new URLSearchParams(set).toString()}`;
}
