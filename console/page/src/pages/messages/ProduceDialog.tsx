// Sends one record: key, value and headers; with the command that sends the same, and where it lies then.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState, type FormEvent, type ReactElement } from "react";
import { CallError, send } from "../../api/calls";
import { Command } from "../../parts/Copy";
import { Dialog } from "../../parts/Dialog";
import { Problem } from "../../parts/Notes";
import { Shape } from "../../parts/State";
import { Tabs } from "../../parts/Tabs";
import { headersOf } from "./headers_text";

interface Receipt {
  key: string;
  summary: string;
  id: string;
}

interface DialogProps {
  name: string;
  lanes: readonly string[];
  onClose: () => void;
  onOpen: (key: string) => void;
}

const FORMS = [["text", "Text"], ["hex", "Hex"]] as const;
type Form = (typeof FORMS)[number][0];

export function ProduceDialog({ name, lanes, onClose, onOpen }: DialogProps): ReactElement {
  const [lane, setLane] = useState(lanes.includes("live") || lanes.length === 0 ? "" : (lanes[0] ?? ""));
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  const [form, setForm] = useState<Form>("text");
  const [headers, setHeaders] = useState("");
  const body = { lane, ...(key === "" ? {} : { key }), value, value_form: form, headers: headersOf(headers) };
  const address = `/api/messages/${encodeURIComponent(name)}/produce`;
  const sending = useMutation<Receipt, Error>({ mutationFn: () => send<Receipt>(address, body) });
  const twin = useQuery({ queryKey: ["produce", name, body], queryFn: () => send<{ cli: string }>(`${address}/cli`, body), placeholderData: (before) => before });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (!sending.isPending) sending.mutate();
  };
  return (
    <Dialog title={`Produce to ${name}`} onClose={onClose} wide>
      <form className="produce" onSubmit={submit}>
        <label>
          <span>Lane</span>
          <select value={lane} onChange={(event) => setLane(event.target.value)}>
            {lanes.includes("live") || lanes.length === 0 ? <option value="">live</option> : null}
            {lanes
              .filter((each) => each !== "live")
              .map((each) => (
                <option key={each} value={each}>
                  {each}
                </option>
              ))}
          </select>
        </label>
        <label>
          <span>Key</span>
          <input className="mono" value={key} placeholder="none" spellCheck={false} onChange={(event) => setKey(event.target.value)} />
        </label>
        <label>
          <span>Value</span>
          <textarea className="mono" rows={8} value={value} spellCheck={false} onChange={(event) => setValue(event.target.value)} />
        </label>
        <Tabs label="Form of the value" choices={FORMS} chosen={form} onChoose={setForm} />
        <label>
          <span>Headers, one a line</span>
          <textarea className="mono" rows={2} value={headers} placeholder="tenant: acme" spellCheck={false} onChange={(event) => setHeaders(event.target.value)} />
        </label>
        {twin.data?.cli ? <Command text={twin.data.cli} /> : <p className="faint">No command sends exactly this: `braid produce` sends lines of text without headers.</p>}
        {sending.error ? <Failed error={sending.error} /> : null}
        {sending.data ? <Sent receipt={sending.data} onOpen={onOpen} /> : null}
        <div className="buttons">
          <button type="submit" className="primary" disabled={sending.isPending}>
            {sending.isPending ? "Sending…" : `Send to ${name}/${lane || "live"}`}
          </button>
          <button type="button" onClick={onClose}>
            Close
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Sent({ receipt, onOpen }: { receipt: Receipt; onOpen: (key: string) => void }): ReactElement {
  return (
    <div className="note" role="status">
      <Shape tone="good" />
      <span className="note-text">
        {receipt.summary}.{" "}
        <button type="button" className="link" onClick={() => onOpen(receipt.key)}>
          Open it
        </button>
      </span>
    </div>
  );
}

function Failed({ error }: { error: Error }): ReactElement {
  const fault = error instanceof CallError ? error.fault : { status: 0, reason: "UNKNOWN", message: error.message, field: "", remedy: "" };
  return <Problem fault={fault} />;
}
