// One lease by its name, as the command line links to it.
import { useNavigate, useParams } from "@tanstack/react-router";
import type { ReactElement } from "react";
import type { Lag, Lease } from "../api/documents";
import { lagFinder } from "../parts/lease_lags";
import { nowOf, table, useView } from "../state/view";
import { useAddress } from "../state/search";
import { Title } from "./Title";
import { useExplained, Why } from "./Why";

export function LeasePage(): ReactElement {
  const { _splat: lease = "" } = useParams({ strict: false }) as { _splat?: string };
  const [address] = useAddress();
  const navigate = useNavigate();
  const named = address["group"] ?? "";
  const group = useExplained(named, lease).data?.lease?.group ?? named;
  const close = (): void => void navigate({ to: "/groups" });
  return (
    <>
      <Title name={lease} parent={["/groups", "Groups"]} />
      {group ? <Followed group={group} named={named} lease={lease} onClose={close} /> : <Why group={named} lease={lease} lag={undefined} onClose={close} />}
    </>
  );
}

/** The lease within its group's view: its lag is there, and the clock follows it. */
function Followed({ group, named, lease, onClose }: { group: string; named: string; lease: string; onClose: () => void }): ReactElement {
  const live = useView("group", { name: group });
  const held = table<Lease>(live, "leases").rows.find((each) => each.name === lease);
  const lag = held ? lagFinder(table<Lag>(live, "lag").rows)(held) : undefined;
  return <Why group={named} lease={lease} lag={lag} now_ms={nowOf(live)} onClose={onClose} />;
}
