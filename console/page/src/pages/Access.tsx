// Who may do what: approvals that wait, grants, policies, and a question about oneself.
import { useQuery } from "@tanstack/react-query";
import { useState, type FormEvent, type ReactElement } from "react";
import { ActionButton } from "../actions/ActionDialog";
import { ask, CallError, query } from "../api/calls";
import type { Approval, ApprovalPolicy, Grant } from "../api/documents";
import { dateTime, duration } from "../format/times";
import { Command } from "../parts/Copy";
import { Age } from "../parts/moments";
import { Empty, Problem, Section } from "../parts/Notes";
import { Shape, State } from "../parts/State";
import { Table, type CellColumn } from "../parts/Table";
import { nowOf, table, useView, value } from "../state/view";
import { Title } from "./Title";

interface Summary {
  enforced: boolean;
  configured_admins: string[];
}

export function Access(): ReactElement {
  const live = useView("access");
  const now = nowOf(live);
  const summary = value<Summary>(live, "summary").value;
  return (
    <>
      <Title name="Access" />
      {summary && !summary.enforced ? <p className="note tone-bad"><Shape tone="bad" /> Rights are not enforced: whoever reaches a service may do everything.</p> : null}
      <Section title="Approvals" part={table(live, "approvals")} now_ms={now}>
        <Approvals rows={table<Approval>(live, "approvals").rows} now_ms={now} />
      </Section>
      <CanI />
      <Section title="Grants" part={table(live, "grants")} now_ms={now}>
        {summary && summary.configured_admins.length > 0 ? <p className="faint">Admins by setting: <span className="mono">{summary.configured_admins.join(", ")}</span></p> : null}
        <Grants rows={table<Grant>(live, "grants").rows} now_ms={now} />
      </Section>
      <Section title="Approval policies" part={table(live, "policies")} now_ms={now}>
        <Policies rows={table<ApprovalPolicy>(live, "policies").rows} />
      </Section>
    </>
  );
}

/** The command that was asked for; an older release says only what it is about. */
function askedFor(row: Approval): string {
  return row.request?.command || `${(row.request?.verbs ?? []).join(", ").replaceAll("_", " ")} ${(row.request?.resources ?? []).join(", ")}`;
}

function Approvals({ rows, now_ms }: { rows: readonly Approval[]; now_ms: number }): ReactElement {
  const columns: CellColumn<Approval>[] = [
    { id: "asked", label: "Asked for", text: askedFor, cell: (row) => <span className="mono wrap" title={askedFor(row)}>{askedFor(row)}</span> },
    { id: "state", label: "State", text: (row) => row.state, order: (row) => (row.state === "waiting" ? "0" : row.state), width: 130, cell: (row) => <State state={row.state} />, leave: "phone" },
    { id: "by", label: "By", text: (row) => (row.request?.asked_by ?? ""), leave: "tablet", cell: (row) => <span className="mono">{row.request?.asked_by}</span> },
    { id: "left", label: "Left", text: (row) => (row.left_ms > 0 ? duration(row.left_ms / 1000) : ""), order: (row) => row.left_ms, align: "right", width: 100, leave: "phone" },
    { id: "age", label: "Age", text: (row) => String(row.ask_time_ms), order: (row) => -row.ask_time_ms, align: "right", width: 90, cell: (row) => <Age ms={row.ask_time_ms} now_ms={now_ms} />, leave: "phone" },
    {
      id: "actions",
      label: "",
      text: () => "",
      align: "right",
      width: 150,
      cell: (row) =>
        row.state === "waiting" ? (
          <span className="buttons-tight">
            <ActionButton verb="decide" given={{ approval: row.id }} label="Approve" small what={row.id} />
            <ActionButton verb="decide" given={{ approval: row.id, refuse: true }} label="Refuse" small what={row.id} />
          </span>
        ) : null,
    },
  ];
  return <Table name="approvals" prefix="a" rows={rows} columns={columns} sort="state" empty={<Empty title="Nothing waits for a second person." command="braid approve --help" />} />;
}

/** A principal with its own name first, for narrow columns cut the end off: `user/ann braid.local`. The title has it whole. */
function Principal({ name }: { name: string }): ReactElement {
  const [, domain = "", path = ""] = /^spiffe:\/\/([^/]+)\/(.+)$/.exec(name) ?? [];
  return (
    <span className="mono" title={name}>
      {path || name} <span className="faint">{domain}</span>
    </span>
  );
}

function Grants({ rows, now_ms }: { rows: readonly Grant[]; now_ms: number }): ReactElement {
  const ends = (row: Grant): string => (row.ended ? "ended" : row.spec?.expire_time_ms ? dateTime(row.spec.expire_time_ms, "utc") : "never");
  const columns: CellColumn<Grant>[] = [
    { id: "principal", label: "Principal", text: (row) => row.spec?.principal ?? "", cell: (row) => <Principal name={row.spec?.principal ?? ""} /> },
    { id: "role", label: "Role", text: (row) => (row.spec?.role ?? "").replaceAll("_", "-"), width: 120 },
    { id: "resource", label: "On", text: (row) => row.spec?.resource || "the whole mesh", width: 124 },
    { id: "ends", label: "Ends", text: ends, order: (row) => row.spec?.expire_time_ms || Infinity, width: 170, leave: "tablet" },
    { id: "reason", label: "Why", text: (row) => row.spec?.reason ?? "", width: 140, leave: "tablet" },
    { id: "by", label: "Given by", text: (row) => row.granted_by, width: 110, leave: "tablet", cell: (row) => <span className="mono">{row.granted_by.split("/").at(-1)}</span> },
    { id: "age", label: "Age", text: (row) => String(row.grant_time_ms), order: (row) => -row.grant_time_ms, align: "right", width: 90, cell: (row) => <Age ms={row.grant_time_ms} now_ms={now_ms} />, leave: "phone" },
  ];
  return <Table name="grants" rows={rows} columns={columns} sort="principal" greyed={(row) => row.ended} empty={<Empty title="Nobody was given a right yet." command="braid grant viewer --to spiffe://braid.local/user/ann" />} />;
}

function Policies({ rows }: { rows: readonly ApprovalPolicy[] }): ReactElement {
  const columns: CellColumn<ApprovalPolicy>[] = [
    { id: "policy", label: "Policy", text: (row) => row.name },
    { id: "verbs", label: "Asks for", text: (row) => (row.spec?.verbs ?? []).join(", ").replaceAll("_", " ") },
    { id: "resource", label: "On", text: (row) => row.spec?.resource || "the whole mesh", width: 180, leave: "phone" },
    { id: "by", label: "Set by", text: (row) => row.set_by, leave: "tablet", cell: (row) => <span className="mono">{row.set_by}</span> },
  ];
  return <Table name="approval policies" prefix="p" rows={rows} columns={columns} sort="policy" bare={rows.length === 0} empty={<Empty title="No request needs a second person." command="braid apply -f policy.yaml">A manifest of kind ApprovalPolicy says which do.</Empty>} />;
}

interface Verdict {
  allowed: boolean;
  why: string;
  missing?: { role: string; resource: string };
}

const KINDS = ["stream", "group", "cluster", "mesh"];

function CanI(): ReactElement {
  const [verb, setVerb] = useState("");
  const [kind, setKind] = useState("stream");
  const [name, setName] = useState("");
  const asked = useQuery({
    queryKey: ["can", verb, kind, name],
    queryFn: () => ask<Verdict>(`/api/can${query({ verb, kind, name })}`),
    enabled: false,
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    void asked.refetch();
  };
  return (
    <Section title="May I?">
      <form className="filters" onSubmit={submit}>
        <label>
          <span>Verb</span>
          <input value={verb} placeholder="move" required spellCheck={false} onChange={(event) => setVerb(event.target.value)} />
        </label>
        <label>
          <span>Kind</span>
          <select value={kind} onChange={(event) => setKind(event.target.value)}>
            {KINDS.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <label>
          <span>Name</span>
          <input value={name} placeholder="all" spellCheck={false} onChange={(event) => setName(event.target.value)} />
        </label>
        <button type="submit" disabled={verb === ""}>
          Ask
        </button>
      </form>
      {asked.error instanceof CallError ? <Problem fault={asked.error.fault} /> : null}
      {asked.data ? <Answer verdict={asked.data} /> : null}
    </Section>
  );
}

function Answer({ verdict }: { verdict: Verdict }): ReactElement {
  return (
    <div role="status">
      <p>
        <State state={verdict.allowed ? "allowed" : "denied"} tone={verdict.allowed ? "good" : "bad"} /> {verdict.why}
      </p>
      {verdict.missing ? <Command text={`braid grant ${verdict.missing.role.replaceAll("_", "-")} --to PRINCIPAL${verdict.missing.resource ? ` --on ${verdict.missing.resource}` : ""}`} /> : null}
    </div>
  );
}
