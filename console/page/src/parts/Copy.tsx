// A button that copies a text, or one that is made when it is pressed, and says that it did.
import { useState, type ReactElement } from "react";

export function Copy({ text, label = "Copy", what }: { text: string | (() => Promise<string>); label?: string; what?: string }): ReactElement {
  const [done, setDone] = useState("");
  const copy = async (): Promise<void> => {
    try {
      if (typeof text !== "string") setDone("Reading…");
      await navigator.clipboard.writeText(typeof text === "string" ? text : await text());
      setDone("Copied");
    } catch {
      setDone("Not allowed: select it by hand");
    }
    window.setTimeout(() => setDone(""), 2000);
  };
  return (
    <button type="button" className="small" onClick={() => void copy()} {...(what ? { "aria-label": `Copy ${what}` } : {})}>
      <span aria-live="polite">{done || label}</span>
    </button>
  );
}

/** A command, shown as it is typed, with a button that copies it. */
export function Command({ text }: { text: string }): ReactElement {
  return (
    <div className="command">
      <code>{text}</code>
      <Copy text={text} what="command" />
    </div>
  );
}
