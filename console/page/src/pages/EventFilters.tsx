// The filter of events; every part of it stands in the address.
import type { ReactElement } from "react";
import { dateTime } from "../format/times";
import { usePreferences } from "../state/preferences";
import type { Search } from "../state/search";
import { Tabs } from "../parts/Tabs";

const SERVICES = ["", "registry", "assigner", "lagmon", "dlq"];
const SPANS = [["", "Any time"], ["900000", "15 min"], ["3600000", "1 h"], ["86400000", "24 h"]] as const;

interface FilterProps {
  address: Search;
  change: (change: Search, replace?: boolean) => void;
}

function Range({ address, change }: FilterProps): ReactElement {
  const { zone } = usePreferences();
  const [since, until] = [Number(address["since_ms"] ?? 0), Number(address["until_ms"] ?? 0)];
  if (since === 0 && until === 0) return <></>;
  return (
    <span className="range">
      {since > 0 ? `from ${dateTime(since, zone)} ` : ""}
      {until > 0 ? `to ${dateTime(until, zone)}` : ""}
      <button type="button" className="small" aria-label="Remove the range of time" onClick={() => change({ since_ms: "", until_ms: "" })}>
        ✕
      </button>
    </span>
  );
}

export function EventFilters({ address, change }: FilterProps): ReactElement {
  return (
    <div className="filters" role="group" aria-label="Filter of events">
      <label>
        <span>About</span>
        <input value={address["history"] ?? ""} placeholder="stream/logs" spellCheck={false} onChange={(event) => change({ history: event.target.value })} />
      </label>
      <label>
        <span>Service</span>
        <select value={address["service"] ?? ""} onChange={(event) => change({ service: event.target.value })}>
          {SERVICES.map((service) => (
            <option key={service} value={service}>
              {service || "all"}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span>By</span>
        <input value={address["actor"] ?? ""} placeholder="principal or replica" spellCheck={false} onChange={(event) => change({ actor: event.target.value })} />
      </label>
      <label className="check">
        <input type="checkbox" checked={address["refused"] === "1"} onChange={(event) => change({ refused: event.target.checked ? "1" : "" })} />
        <span>refused calls only</span>
      </label>
      <Tabs label="Range of time" choices={SPANS} chosen={(address["since_ms"] || address["until_ms"] ? "some" : "") as (typeof SPANS)[number][0]} onChoose={(span) => change({ since_ms: span ? String(Date.now() - Number(span)) : "", until_ms: "" })} />
      <Range address={address} change={change} />
    </div>
  );
}
