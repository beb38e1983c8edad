// Messages as they come. Space holds the moment; what is too much is said.
import { Link } from "@tanstack/react-router";
import { useEffect, useMemo, useSyncExternalStore, type ReactElement } from "react";
import { query } from "../../api/calls";
import { TailView, type TailState } from "../../api/tail";
import { count } from "../../format/numbers";
import { Command } from "../../parts/Copy";
import { Empty, Problem } from "../../parts/Notes";
import { Shape } from "../../parts/State";
import { usePaused } from "../../state/view";
import type { Asked } from "./asked";
import { MessageTable } from "./MessageTable";
import { RecordPane } from "./RecordPane";

interface TailProps {
  name: string;
  asked: Asked;
  chosen: string;
  onChoose: (key: string) => void;
}

function useTail(name: string, asked: Asked): TailState {
  const { lane, cluster, partition, filter, form } = asked;
  const url = `/api/messages/${encodeURIComponent(name)}/tail${query({ lane, cluster, partition, filter, form })}`;
  const view = useMemo(() => new TailView(url), [url]);
  const paused = usePaused();
  useEffect(() => {
    view.start();
    return () => view.stop();
  }, [view]);
  useEffect(() => view.pause(paused), [view, paused]);
  return useSyncExternalStore(view.subscribe, view.get);
}

export function LiveTail({ name, asked, chosen, onChoose }: TailProps): ReactElement {
  const tail = useTail(name, asked);
  return (
    <>
      {tail.fault ? <Problem fault={tail.fault} /> : null}
      {tail.absent.length > 0 ? (
        <div className="note tone-warn">
          <Shape tone="warn" />
          <ul className="note-text plain-list">
            {tail.absent.map((each) => (
              <li key={each.cluster}>
                Nothing comes from <Link to="/clusters/$name" params={{ name: each.cluster }}>{each.cluster}</Link>, because {each.reason}. {each.remedy ? `Try: ${each.remedy}` : ""}
              </li>
            ))}
          </ul>
        </div>
      ) : null}
      <p className="faint" role="status">
        {tailWords(tail)}
      </p>
      <div className={chosen ? "messages split" : "messages"}>
        <MessageTable rows={tail.rows} chosen={chosen} onChoose={onChoose} empty={<Empty title="Waiting for messages…" command={`echo hello | braid produce ${name}`} />} />
        {chosen ? <RecordPane key={chosen} record={chosen} form={asked.form} onClose={() => onChoose(chosen)} /> : null}
      </div>
      {tail.cli ? <Command text={tail.cli} /> : null}
    </>
  );
}

const CONNECTIONS: Readonly<Record<TailState["connection"], string>> = {
  connecting: "Connecting.",
  live: "Following what comes now.",
  reconnecting: "The line was cut; it is opened again.",
  ended: "It has ended.",
};

export function tailWords(tail: TailState): string {
  return [
    CONNECTIONS[tail.connection],
    tail.waiting > 0 ? `${count(tail.waiting)} wait: press Space to see them.` : "",
    tail.skipped > 0 ? `${count(tail.skipped)} records skipped: more came than is shown. Narrow the filter.` : "",
    tail.cuts > 0 ? "The line was cut: what came meanwhile is not here." : "",
  ]
    .filter(Boolean)
    .join(" ");
}
