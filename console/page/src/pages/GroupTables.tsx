// A group's members and leases as tables.
import { useMemo, type ReactElement } from "react";
import { ActionButton } from "../actions/ActionDialog";
import type { Lag, Lease, Member } from "../api/documents";
import { count, epochText } from "../format/numbers";
import { ClusterLink, LagCell, lagText } from "../parts/cells";
import { Age } from "../parts/moments";
import { lagFinder } from "../parts/lease_lags";
import { Empty } from "../parts/Notes";
import { State } from "../parts/State";
import { Table, type CellColumn } from "../parts/Table";
import { age } from "../format/times";
import { useAddress } from "../state/search";

export function memberState(member: Member): string {
  if (member.drain && member.drain !== "unspecified") return member.drain;
  return member.state === "unspecified" ? "not kept" : member.state;
}

export function MemberTable({ group, rows, now_ms }: { group: string; rows: readonly Member[]; now_ms: number }): ReactElement {
  const columns: CellColumn<Member>[] = [
    { id: "member", label: "Member", text: (row) => `${row.client_id} ${row.id}`, cell: (row) => <span title={row.id}>{row.client_id || row.id}</span> },
    { id: "state", label: "State", text: memberState, width: 104, cell: (row) => <State state={memberState(row)} /> },
    { id: "leases", label: "Leases", text: (row) => count(row.leases), order: (row) => row.leases, align: "right", width: 90, leave: "phone" },
    {
      id: "load",
      label: "Load",
      text: (row) => (row.relative_load === undefined ? "unknown" : `${row.relative_load.toFixed(2)}×`),
      order: (row) => row.relative_load ?? -1,
      align: "right",
      width: 90,
      leave: "phone",
    },
    { id: "zone", label: "Zone", text: (row) => row.zone, width: 110, leave: "tablet" },
    { id: "peer", label: "Address", text: (row) => row.peer, width: 170, leave: "tablet" },
    { id: "joined", label: "Age", text: (row) => age(row.join_time_ms, now_ms), order: (row) => -row.join_time_ms, align: "right", width: 90, leave: "phone", cell: (row) => <Age ms={row.join_time_ms} now_ms={now_ms} /> },
    {
      id: "actions",
      label: "",
      text: () => "",
      width: 90,
      align: "right",
      cell: (row) => (
        <ActionButton verb="drain" given={{ group, member: row.client_id || row.id, undo: row.drain === "draining" || row.drain === "drained" }} label={row.drain === "draining" || row.drain === "drained" ? "Undrain" : "Drain"} small what={row.client_id || row.id} />
      ),
    },
  ];
  return <Table name="members" prefix="m" rows={rows} columns={columns} sort="member" empty={<Empty title="No member works in this group." command={`braid consume STREAM --group ${group}`} />} />;
}

interface LeaseRow extends Lease {
  lag: Lag | undefined;
}

export function LeaseTable(props: { group: string; rows: readonly Lease[]; lags: readonly Lag[]; now_ms: number }): ReactElement {
  const { group, rows, lags, now_ms } = props;
  const [, change] = useAddress();
  const joined = useMemo(() => {
    const lagOf = lagFinder(lags);
    return rows.map((row): LeaseRow => ({ ...row, lag: lagOf(row) }));
  }, [rows, lags]);
  const columns: CellColumn<LeaseRow>[] = [
    { id: "lease", label: "Lease", text: (row) => row.name, cell: (row) => <span className="mono">{row.name}</span> },
    { id: "state", label: "State", text: (row) => row.state, width: 104, cell: (row) => <State state={row.state} />, leave: "phone" },
    { id: "member", label: "Member", text: (row) => row.member_client_id || row.member, width: 130, leave: "tablet" },
    { id: "cluster", label: "Cluster", text: (row) => row.cluster, width: 90, cell: (row) => <ClusterLink name={row.cluster} />, leave: "phone" },
    { id: "lag", label: "Lag", text: (row) => (row.lag ? lagText(row.lag) : ""), order: (row) => row.lag?.lag_seconds ?? -1, align: "right", width: 124, cell: (row) => (row.lag ? <LagCell lag={row.lag} now_ms={now_ms} /> : <span className="faint">unknown</span>) },
    { id: "records", label: "Records", text: (row) => (row.lag ? count(row.lag.lag_records) : ""), order: (row) => row.lag?.lag_records ?? -1, align: "right", width: 92, leave: "tablet" },
    { id: "epoch", label: "Epoch", text: (row) => epochText(row.epoch), order: (row) => row.epoch, align: "right", width: 84, leave: "tablet" },
    { id: "since", label: "Since", text: (row) => age(row.since_ms, now_ms), order: (row) => -row.since_ms, align: "right", width: 66, leave: "tablet", cell: (row) => <Age ms={row.since_ms} now_ms={now_ms} /> },
    {
      id: "actions",
      label: "",
      text: () => "",
      width: 70,
      align: "right",
      cell: (row) => (
        <button type="button" className="small" aria-label={`Why is ${row.name} here`} onClick={() => change({ lease: row.name })}>
          Why
        </button>
      ),
    },
  ];
  return <Table name="leases" rows={joined} columns={columns} sort="-lag" empty={<Empty title="No partition is given out." command={`braid get leases --group ${group}`} />} />;
}
