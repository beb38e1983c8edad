// One group: who works on what, how far behind, and why each partition is where it is.
import { useParams } from "@tanstack/react-router";
import { useMemo, type ReactElement } from "react";
import { ActionButton } from "../actions/ActionDialog";
import type { Alert, Group, Lag, LagHistory, Lease, Member } from "../api/documents";
import type { LiveState } from "../api/live";
import { count, counted } from "../format/numbers";
import { duration } from "../format/times";
import { StreamLink } from "../parts/cells";
import { Facts } from "../parts/Facts";
import { matrixOf, type Heat } from "../parts/heat";
import { HeatLegend, HeatMap } from "../parts/HeatMap";
import { LagChart, type Measure } from "../parts/LagChart";
import { lagFinder } from "../parts/lease_lags";
import { Age } from "../parts/moments";
import { Empty, refused, Section, Staleness } from "../parts/Notes";
import { State } from "../parts/State";
import { Tabs } from "../parts/Tabs";
import { useAddress } from "../state/search";
import { nowOf, table, useView, value } from "../state/view";
import { AlertList } from "./AlertList";
import { IncidentCopy } from "./IncidentReport";
import { LeaseTable, MemberTable } from "./GroupTables";
import { NotThere, Title } from "./Title";
import { Why } from "./Why";

/** A heat map with more partitions says less than the table. */
const HEAT_LEASES_MAX = 2_000;

export function GroupPage(): ReactElement {
  const { name } = useParams({ strict: false }) as { name: string };
  const live = useView("group", { name });
  const now = nowOf(live);
  const group = value<Group>(live, "group");
  const frozen = Boolean(group.value?.rules?.freeze);
  if (refused(group)) return <NotThere name={name} parent={["/groups", "Groups"]} history={`group/${name}`} part={group} now_ms={now} />;
  return (
    <>
      <Title name={name} parent={["/groups", "Groups"]} history={`group/${name}`} state={group.value ? <State state={frozen ? "frozen" : group.value.status.members > 0 ? "live" : "unattended"} /> : null}>
        {group.value ? <IncidentCopy group={group.value} live={live} /> : null}
        <ActionButton verb="freeze" given={{ group: name, undo: frozen }} label={frozen ? "Unfreeze" : "Freeze"} />
        <ActionButton verb="reset" given={{ group: name }} label="Reset progress" />
      </Title>
      <Staleness part={group} now_ms={now} />
      {group.value ? <GroupFacts group={group.value} now_ms={now} /> : null}
      <AlertList part={table<Alert>(live, "alerts")} now_ms={now} />
      <LagOverTime live={live} name={name} />
      <Placement live={live} now_ms={now} group={name} />
      <Section title="Members" part={table(live, "members")} now_ms={now}>
        <MemberTable group={name} rows={table<Member>(live, "members").rows} now_ms={now} />
      </Section>
      <Section title="Leases" part={table(live, "leases")} now_ms={now}>
        <LeaseTable group={name} rows={table<Lease>(live, "leases").rows} lags={table<Lag>(live, "lag").rows} now_ms={now} />
      </Section>
    </>
  );
}

function GroupFacts({ group, now_ms }: { group: Group; now_ms: number }): ReactElement {
  const { spec, status } = group;
  const warnings = [...(group.rules?.warnings ?? []), ...status.stopped_lanes, ...status.doubts];
  return (
    <>
      <Facts
        facts={[
          ["Streams", spec.streams.map((stream) => <StreamLink key={stream} name={stream} />)],
          ["Members", `${count(status.members)}${group.scaling?.desired ? ` of ${count(group.scaling.desired.members)} wanted` : ""}`],
          ["Leases", `${count(status.leases)}${status.free_leases ? `, ${count(status.free_leases)} free` : ""}`],
          ["Ownership", spec.ownership.replaceAll("_", " ")],
          ["Lease time", duration(spec.lease_ms / 1000)],
          ["Fenced by", spec.fencing === "generation" ? "the broker" : spec.fencing],
          ["Created", <Age key="age" ms={group.create_time_ms} now_ms={now_ms} />],
        ]}
      />
      {group.rules?.freeze ? <p className="note tone-warn">Frozen: {group.rules.freeze.reason || "nobody said why"}. Nothing that is held moves.</p> : null}
      {warnings.map((warning) => (
        <p key={warning} className="note tone-warn">
          {warning}
        </p>
      ))}
    </>
  );
}

const MEASURES = [["lag_seconds", "Seconds"], ["lag_records", "Records"], ["rates", "Rates"]] as const;

function LagOverTime({ live, name }: { live: LiveState; name: string }): ReactElement {
  const [address, change] = useAddress();
  const measure = (MEASURES.find(([id]) => id === address["measure"])?.[0] ?? "lag_seconds") as Measure;
  const history = table<LagHistory>(live, "history");
  const known = history.rows.filter((row) => row.steps.length > 0);
  return (
    <Section title="Lag over two hours" part={history} now_ms={nowOf(live)} actions={<Tabs label="Measure" choices={MEASURES} chosen={measure} onChoose={(next) => change({ measure: next })} />}>
      {known.length > 0 ? <LagChart histories={known} measure={measure} /> : <Empty title="No lag is kept for this group yet." command={`braid get lag ${name}`}>lagmon keeps a step every 10 seconds from the first commit on.</Empty>}
    </Section>
  );
}

const HEATS = [["lag", "Lag"], ["records", "Records"], ["age", "Lease age"]] as const;

function Placement({ live, now_ms, group }: { live: LiveState; now_ms: number; group: string }): ReactElement {
  const [address, change] = useAddress();
  const heat = (HEATS.find(([id]) => id === address["heat"])?.[0] ?? "lag") as Heat;
  const chosen = address["lease"] ?? "";
  const members = table<Member>(live, "members").rows;
  const leases = table<Lease>(live, "leases");
  const lags = table<Lag>(live, "lag").rows;
  const held = leases.rows.find((lease) => lease.name === chosen);
  const chosenLag = held ? lagFinder(lags)(held) : undefined;
  const matrix = useMemo(() => (leases.rows.length > HEAT_LEASES_MAX ? null : matrixOf(members, leases.rows, lags, heat, now_ms)), [members, leases.rows, lags, heat, now_ms]);
  return (
    <Section title="Members and partitions" part={leases} now_ms={now_ms} actions={<Tabs label="Heat" choices={HEATS} chosen={heat} onChoose={(next) => change({ heat: next })} />}>
      <Staleness part={table(live, "lag")} now_ms={now_ms} />
      {matrix === null ? <p className="note">{counted(leases.rows.length, "lease")} are too many for a map: sort the table below by lag.</p> : null}
      {matrix !== null && matrix.columns > 0 ? (
        <>
          <HeatMap matrix={matrix} heat={heat} chosen={chosen} onChoose={(lease) => change({ lease: lease === chosen ? "" : lease })} />
          <HeatLegend heat={heat} />
        </>
      ) : null}
      {matrix?.columns === 0 ? <Empty title="No partition is given out yet." command={`braid consume STREAM --group ${group}`} /> : null}
      {chosen ? <Why group={group} lease={chosen} lag={chosenLag} now_ms={now_ms} onClose={() => change({ lease: "" })} /> : null}
    </Section>
  );
}
