// Alerts: what fires, what is silenced, what was resolved, and where they are sent.
import { useParams } from "@tanstack/react-router";
import type { ReactElement } from "react";
import { ActionButton } from "../actions/ActionDialog";
import type { Alert, Outlet } from "../api/documents";
import type { LiveState } from "../api/live";
import { Command } from "../parts/Copy";
import { Age, Moment } from "../parts/moments";
import { answered, Empty, Section, Staleness } from "../parts/Notes";
import { ClusterLink, GroupLink, StreamLink } from "../parts/cells";
import { State } from "../parts/State";
import { Tabs } from "../parts/Tabs";
import { useAddress } from "../state/search";
import { nowOf, table, useView } from "../state/view";
import { ResponseList } from "./ResponseList";
import { Title } from "./Title";

const SHOWN = [["", "Firing"], ["1", "Resolved, too"]] as const;

const ORDER: Readonly<Record<string, number>> = { firing: 0, pending: 1, resolved: 2 };

function sortedAlerts(alerts: readonly Alert[], filter: string): Alert[] {
  const words = filter.toLowerCase();
  return alerts
    .filter((alert) => `${alert.name} ${alert.summary}`.toLowerCase().includes(words))
    .sort(
      (one, other) =>
        (ORDER[one.state] ?? 3) - (ORDER[other.state] ?? 3) ||
        Number(Boolean(one.silence)) - Number(Boolean(other.silence)) ||
        one.severity.localeCompare(other.severity) ||
        other.fire_time_ms - one.fire_time_ms ||
        one.key.localeCompare(other.key),
    );
}

export function Alerts(): ReactElement {
  const [address, change] = useAddress();
  const resolved = address["resolved"] === "1" ? "1" : "";
  const live = useView("alerts", { resolved });
  const alerts = table<Alert>(live, "alerts");
  const { _splat: named = "" } = useParams({ strict: false }) as { _splat?: string };
  const shown = sortedAlerts(alerts.rows, address["q"] ?? named);
  return (
    <>
      <Title name="Alerts">
        <Tabs label="Alerts" choices={SHOWN} chosen={resolved} onChoose={(next) => change({ resolved: next })} />
      </Title>
      <Staleness part={alerts} now_ms={nowOf(live)} />
      <div className="table-tools">
        <input type="search" className="filter" aria-label="Filter alerts" placeholder="Filter alerts" value={address["q"] ?? named} onChange={(event) => change({ q: event.target.value })} />
      </div>
      <div className={alerts.stale && alerts.as_of_ms > 0 ? "stale cards" : "cards"}>
        {shown.map((alert) => (
          <AlertCard key={alert.key} alert={alert} now_ms={nowOf(live)} />
        ))}
      </div>
      {answered(alerts) && shown.length === 0 ? <NoAlert filter={address["q"] ?? named} /> : null}
      <ResponseList live={live} />
      <Outlets live={live} />
    </>
  );
}

function NoAlert({ filter }: { filter: string }): ReactElement {
  if (filter) return <Empty title={`No alert matches “${filter}”.`} command="braid get alerts">It may have been resolved: show resolved ones, too.</Empty>;
  return (
    <Empty title="No alert is firing." command="braid get stream logs -o yaml > logs.yaml   # add lag_target, then: braid apply -f logs.yaml">
      Alerts follow from the lag targets of streams, and from the health of clusters.
    </Empty>
  );
}

function AlertCard({ alert, now_ms }: { alert: Alert; now_ms: number }): ReactElement {
  const over = alert.state === "resolved";
  return (
    <article className={`card${over ? " faded" : ""}`} aria-label={alert.summary || alert.name}>
      <header className="card-head">
        <State state={alert.state === "firing" ? alert.severity : alert.state} />
        <h2>{alert.summary || alert.name}</h2>
        <div className="section-actions">
          {alert.silence ? <ActionButton verb="unsilence" given={{ alert: alert.name }} label="End silence" small what={alert.name} /> : null}
          {!over && !alert.silence ? <ActionButton verb="silence" given={{ alert: alert.name, for: "2h" }} label="Silence" small what={alert.name} /> : null}
        </div>
      </header>
      <p className="card-line">
        <span className="mono">{alert.rule}</span>
        {alert.group ? <GroupLink name={alert.group} /> : null}
        {alert.stream ? <StreamLink name={alert.stream} lane={alert.lane} /> : null}
        {alert.cluster ? <ClusterLink name={alert.cluster} /> : null}
        <span className="faint">
          {over ? "resolved " : "since "}
          <Moment ms={over ? alert.resolve_time_ms : alert.fire_time_ms} />, <Age ms={over ? alert.resolve_time_ms : alert.fire_time_ms} now_ms={now_ms} /> ago
        </span>
      </p>
      {over && alert.resolve_reason ? <p>{alert.resolve_reason}</p> : null}
      {alert.silence ? (
        <p className="note tone-warn">
          Silenced by {alert.silence.created_by}: {alert.silence.reason}. It ends at <Moment ms={alert.silence.expire_time_ms} />.
        </p>
      ) : null}
      {!over && alert.remedy ? <p>{alert.remedy}</p> : null}
      {!over && alert.command ? <Command text={alert.command} /> : null}
      {!over && alert.runbook ? <Runbook address={alert.runbook} /> : null}
    </article>
  );
}

/** A link where the mesh names a web address, and plain text for anything else. */
function Runbook({ address }: { address: string }): ReactElement {
  if (!/^https?:\/\//.test(address)) return <p className="faint">Runbook: {address}</p>;
  return (
    <p>
      <a href={address} target="_blank" rel="noreferrer noopener">
        Runbook
      </a>
    </p>
  );
}

function Outlets({ live }: { live: LiveState }): ReactElement {
  const outlets = table<Outlet>(live, "outlets");
  return (
    <Section title="Where alerts are sent" part={outlets} now_ms={nowOf(live)}>
      {outlets.rows.length === 0 ? <p className="calm">Nowhere: no webhook and no Alertmanager is set. Name them to lagmon in <code>BRAID_ALERT_OUTLETS</code>.</p> : null}
      <ul className="list">
        {[...outlets.rows].sort((one, other) => one.key.localeCompare(other.key)).map((outlet) => (
          <li key={outlet.key}>
            <State state={outlet.trouble ? "failed" : "live"} />
            <span className="grow">
              {outlet.name} <span className="faint">{outlet.kind}</span> {outlet.trouble}
            </span>
            <span className="faint nowrap">{outlet.waiting > 0 ? `${outlet.waiting} waiting` : ""}</span>
          </li>
        ))}
      </ul>
    </Section>
  );
}
