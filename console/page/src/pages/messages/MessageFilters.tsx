// Which records: where to begin, of which lane and cluster, and what they must be like. Nothing is asked while one types.
import { useState, type FormEvent, type ReactElement } from "react";
import type { Stream } from "../../api/documents";
import type { Search } from "../../state/search";
import { beginningOf, fromOf, type Beginning } from "./asked";

interface FilterProps {
  stream: Stream | null;
  address: Search;
  change: (change: Search, replace?: boolean) => void;
  /** Whether messages are followed as they come: then there is no beginning to choose. */
  following: boolean;
}

const BEGINNINGS: readonly (readonly [Beginning, string])[] = [
  ["newest", "newest first"],
  ["earliest", "from the earliest"],
  ["time", "from a time"],
  ["offset", "from an offset"],
];
const FORMS = ["", "json", "text", "hex"];
const DETAILS: Readonly<Partial<Record<Beginning, string>>> = { time: "10m, or 2026-11-29T14:03", offset: "1200" };

/** Lanes whose records are shown here; dead letters have a page of their own. */
export function lanesOf(stream: Stream | null): string[] {
  return Object.keys(stream?.spec.lanes ?? {}).filter((lane) => lane !== "dlq");
}

/** Typed again whenever the address changes by other means, as by the Back button. */
export function MessageFilters(props: FilterProps): ReactElement {
  const { address } = props;
  return <Form key={[address["from"], address["partition"], address["filter"]].join("\n")} {...props} />;
}

function Form({ stream, address, change, following }: FilterProps): ReactElement {
  const [beginning, setBeginning] = useState<Beginning>(beginningOf(address["from"] ?? "")[0]);
  const [detail, setDetail] = useState(beginningOf(address["from"] ?? "")[1]);
  const [filter, setFilter] = useState(address["filter"] ?? "");
  const [partition, setPartition] = useState(address["partition"] ?? "");
  const lanes = lanesOf(stream);
  const clusters = [...new Set(stream?.status.channels.map((channel) => channel.cluster) ?? [])].sort();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    change({ from: fromOf(beginning, detail), filter: filter.trim(), partition: partition.trim(), record: "" }, false);
  };
  const needed = DETAILS[beginning];
  return (
    <form className="filters" role="search" aria-label="Which messages" onSubmit={submit}>
      {following ? null : (
        <label>
          <span>Begin</span>
          <select value={beginning} onChange={(event) => setBeginning(event.target.value as Beginning)}>
            {BEGINNINGS.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </label>
      )}
      {needed === undefined || following ? null : (
        <label>
          <span>{beginning === "time" ? "Time" : "Offset"}</span>
          <input value={detail} placeholder={needed} required spellCheck={false} onChange={(event) => setDetail(event.target.value)} />
        </label>
      )}
      <Choice label="Lane" value={address["lane"] ?? ""} choices={lanes} onChoose={(lane) => change({ lane, record: "" })} />
      <Choice label="Cluster" value={address["cluster"] ?? ""} choices={clusters} onChoose={(cluster) => change({ cluster, record: "" })} />
      <label>
        <span>Partition</span>
        <input className="narrow" value={partition} placeholder="all" inputMode="numeric" pattern="[0-9]*" onChange={(event) => setPartition(event.target.value)} />
      </label>
      <Choice label="Values" value={address["form"] ?? ""} choices={FORMS.slice(1)} none="as they are" onChoose={(form) => change({ form })} />
      <label className="grow">
        <span>Filter</span>
        <input className="mono" value={filter} placeholder="json.level=error and header.tenant=acme" spellCheck={false} aria-describedby="filter-fields" onChange={(event) => setFilter(event.target.value)} />
      </label>
      <button type="submit">{following ? "Follow" : "Find"}</button>
      <p id="filter-fields" className="faint filter-fields">
        Fields: key, value, id, lane, cluster, partition, offset, size, time, header.NAME, json.PATH. Join with and, or, not; ~ means contains.
      </p>
    </form>
  );
}

function Choice(props: { label: string; value: string; choices: readonly string[]; none?: string; onChoose: (value: string) => void }): ReactElement {
  const { label, value, choices, none = "all", onChoose } = props;
  const known = value === "" || choices.includes(value) ? choices : [...choices, value];
  return (
    <label>
      <span>{label}</span>
      <select value={value} onChange={(event) => onChoose(event.target.value)}>
        <option value="">{none}</option>
        {known.map((choice) => (
          <option key={choice} value={choice}>
            {choice}
          </option>
        ))}
      </select>
    </label>
  );
}
