// One dead letter in full: text only, whatever it holds.
import { useParams } from "@tanstack/react-router";
import { useState, type ReactElement } from "react";
import { ActionButton } from "../actions/ActionDialog";
import type { LetterContent } from "../api/documents";
import { bytes, count } from "../format/numbers";
import { ClusterLink, GroupLink, StreamLink } from "../parts/cells";
import { Copy } from "../parts/Copy";
import { Facts } from "../parts/Facts";
import { Age, Moment } from "../parts/moments";
import { Section, Staleness } from "../parts/Notes";
import { State } from "../parts/State";
import { Tabs } from "../parts/Tabs";
import { nowOf, useView, value } from "../state/view";
import { hexDump, pretty } from "./letter_text";
import { quoted } from "./letter_filter";
import { Title } from "./Title";

export function DeadLetter(): ReactElement {
  const { _splat: name = "" } = useParams({ strict: false }) as { _splat?: string };
  const live = useView("dead-letter", { name });
  const part = value<LetterContent>(live, "letter");
  const content = part.value;
  const now = nowOf(live);
  return (
    <>
      <Title name={name} parent={["/dead-letters", "Dead letters"]} state={content ? <State state={content.letter.state} /> : null}>
        {content?.letter.origin?.id ? <ActionButton verb="replay" given={{ stream: content.letter.stream, filter: `id=${quoted(content.letter.origin.id)}` }} label="Replay this one" /> : null}
      </Title>
      <Staleness part={part} now_ms={now} />
      {content ? <Content content={content} now_ms={now} /> : null}
    </>
  );
}

function Content({ content, now_ms }: { content: LetterContent; now_ms: number }): ReactElement {
  const { letter } = content;
  return (
    <>
      <p className="letter-error">
        <span className="mono">{letter.quarantine || letter.error_class}</span> {letter.error_message}
      </p>
      <LetterFacts content={content} now_ms={now_ms} />
      <Section title={`Value, ${bytes(letter.value_bytes)}${content.truncated ? ", cut" : ""}`}>
        <Bytes what="value" text={content.value_text} hex={content.value} />
      </Section>
      <Section title="Key">
        <Bytes what="key" text={content.key_text} hex={content.key} />
      </Section>
      <Section title={`Headers, ${count(content.headers.length)}`}>
        <Headers headers={content.headers} />
      </Section>
      {content.traceback ? (
        <Section title="Traceback" actions={<Copy text={content.traceback} what="traceback" />}>
          <pre tabIndex={0} aria-label="Traceback">
            {content.traceback}
          </pre>
        </Section>
      ) : null}
    </>
  );
}

function LetterFacts({ content, now_ms }: { content: LetterContent; now_ms: number }): ReactElement {
  const { letter } = content;
  const origin = letter.origin;
  return (
    <Facts
      facts={[
        ["Given up by", <GroupLink key="group" name={letter.group} />],
        ["Stream / lane", <StreamLink key="stream" name={letter.stream} lane={origin?.lane ?? ""} />],
        ["Attempts", count(letter.attempts)],
        ["First failure", <Moment key="first" ms={letter.first_failure_ms} full />],
        ["Last failure", <Age key="last" ms={letter.last_failure_ms} now_ms={now_ms} />],
        ["Came from", origin ? <span key="origin" className="mono">{`${origin.cluster} ${origin.topic}/${origin.partition} @ ${origin.offset}`}</span> : ""],
        ["Copy on", <ClusterLink key="cluster" name={letter.cluster} />],
        ["Record id", origin?.id ? <span key="id" className="mono">{origin.id}</span> : ""],
        ["Record time", origin ? <Moment key="time" ms={origin.timestamp_ms} full /> : ""],
        ["Replays before", count(letter.replays)],
        ["Sent again by", letter.replayed_by.join(", ")],
      ]}
    />
  );
}

const FORMS = [["text", "Text"], ["hex", "Hex"]] as const;

function Bytes({ what, text, hex }: { what: string; text: string | undefined; hex: string | undefined }): ReactElement {
  const [form, setForm] = useState<"text" | "hex">(text === undefined ? "hex" : "text");
  if (hex === undefined && text === undefined) return <p className="calm">It has no {what}.</p>;
  const shown = form === "text" && text !== undefined ? pretty(text) : hexDump(hex ?? "");
  return (
    <>
      <div className="table-tools">
        {text === undefined ? <span className="faint">No UTF-8 text.</span> : <Tabs label={`Form of the ${what}`} choices={FORMS} chosen={form} onChoose={setForm} />}
        <Copy text={form === "text" ? (text ?? "") : (hex ?? "")} what={what} />
      </div>
      <pre tabIndex={0} aria-label={what === "key" ? "Key" : "Value"} className="payload" dir="ltr">
        {shown || " "}
      </pre>
    </>
  );
}

function Headers({ headers }: { headers: LetterContent["headers"] }): ReactElement {
  if (headers.length === 0) return <p className="calm">It has no headers.</p>;
  return (
    <dl className="headers">
      {headers.map((header, place) => (
        <div key={`${header.name} ${place}`}>
          <dt className="mono">{header.name}</dt>
          <dd className="mono">{header.value_text ?? `0x${header.value}`}</dd>
        </div>
      ))}
    </dl>
  );
}
