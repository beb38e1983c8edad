// One lease by its name, as the command line links to it.
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import type { ReactElement } from "react";
import type { Lag, Progress } from "../api/documents";
import { Staleness } from "../parts/Notes";
import { useAddress } from "../state/search";
import { nowOf, useView, value } from "../state/view";
import { Title } from "./Title";
import { Explanation, type Explained } from "./Why";

export function LeasePage(): ReactElement {
  const { _splat: lease = "" } = useParams({ strict: false }) as { _splat?: string };
  const [address] = useAddress();
  const navigate = useNavigate();
  const group = address["group"] ?? "";
  const live = useView("lease", { lease, group });
  const now = nowOf(live);
  const explained = value<Explained>(live, "explained");
  const lag = value<Lag>(live, "lease_lag");
  return (
    <>
      <Title name={lease} parent={["/groups", "Groups"]} />
      <Explanation
        group={group}
        lease={lease}
        explained={explained.value ?? undefined}
        lag={lag.value ?? undefined}
        progress={value<Progress>(live, "progress").value}
        now_ms={now}
        onClose={() => void navigate({ to: "/groups" })}
      >
        <Staleness part={explained} now_ms={now} />
        {explained.error?.field === "group" ? <Groups lease={lease} names={explained.error.choices ?? []} /> : null}
        {explained.value ? <Staleness part={lag} now_ms={now} /> : null}
      </Explanation>
    </>
  );
}

/** The groups that have the lease: each has its own of that name. */
function Groups({ lease, names }: { lease: string; names: readonly string[] }): ReactElement {
  return (
    <p className="buttons">
      {names.map((group) => (
        <Link key={group} to="/leases/$" params={{ _splat: lease }} search={{ group }} className="button">
          {group}
        </Link>
      ))}
    </p>
  );
}
