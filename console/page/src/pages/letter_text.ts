// Bytes of a record as people read them. Pure: nothing of a record is ever taken for markup.

/** Characters beyond which a browser gets slow; the whole is in the copy button. */
export const SHOWN_MAX = 200_000;

// Marks that turn the direction of text, or are not seen: a record may hide with them what it says.
const UNSEEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/g;

/** Shows marks that are not seen by their code point, as `⟨202E⟩`. */
export function visible(text: string): string {
  return text.replaceAll(UNSEEN, (mark) => `⟨${(mark.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

function cut(text: string): string {
  return text.length <= SHOWN_MAX ? text : `${text.slice(0, SHOWN_MAX)}\n… ${text.length - SHOWN_MAX} characters more: copy it to see them`;
}

/** JSON is indented unless that would change what it says, as it would a number beyond 2^53; other text stays as it is. */
export function pretty(text: string): string {
  if (text.length <= SHOWN_MAX && /^\s*[[{]/.test(text)) {
    try {
      const value: unknown = JSON.parse(text);
      if (squeezed(JSON.stringify(value)) === squeezed(text)) return visible(JSON.stringify(value, null, 2));
    } catch {
      // It only looked like JSON.
    }
  }
  return visible(cut(text));
}

/** Without white space outside of strings; strings that are written with escapes differ, and stay as they came. */
function squeezed(json: string): string {
  return json.replaceAll(/("(?:[^"\\]|\\.)*")|\s+/g, "$1");
}

/** 16 bytes a line: offset, hex, printable characters. */
export function hexDump(hex: string, most = 65_536): string {
  const lines: string[] = [];
  const shown = hex.slice(0, most * 2);
  for (let at = 0; at < shown.length; at += 32) {
    const bytes = shown.slice(at, at + 32).match(/../g) ?? [];
    const text = bytes.map((byte) => {
      const code = Number.parseInt(byte, 16);
      return code >= 0x20 && code < 0x7f ? String.fromCharCode(code) : ".";
    });
    lines.push(`${(at / 2).toString(16).padStart(8, "0")}  ${bytes.join(" ").padEnd(47)}  ${text.join("")}`);
  }
  if (hex.length > shown.length) lines.push(`… ${hex.length / 2 - most} bytes more`);
  return lines.join("\n");
}
