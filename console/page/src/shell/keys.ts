// Shortcuts of the whole console. Keys typed into a field or a dialog are left alone.
import { useEffect } from "react";
import { PLACES } from "./places";

export interface KeyActs {
  palette: () => void;
  shortcuts: () => void;
  pause: () => void;
  go: (path: string) => void;
}

/** After `g`, the next key counts for so long. */
const SEQUENCE_MS = 1_500;

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}

function rowLinks(): HTMLElement[] {
  return [...document.querySelectorAll<HTMLElement>("main tbody a.row-link")];
}

function moveRow(step: number): void {
  const links = rowLinks();
  const here = links.indexOf(document.activeElement as HTMLElement);
  const next = links[here < 0 ? 0 : Math.min(links.length - 1, Math.max(0, here + step))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

export function useKeys(acts: KeyActs): void {
  useEffect(() => {
    let began = 0;
    const pressed = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        acts.palette();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || document.querySelector("dialog[open]")) return;
      const sequence = event.timeStamp - began < SEQUENCE_MS;
      began = 0;
      const place = sequence ? PLACES.find((each) => each.key === event.key) : undefined;
      if (place !== undefined) return acts.go(place.path);
      if (event.key === "g") began = event.timeStamp;
      else if (event.key === "?") acts.shortcuts();
      else if (event.key === "j") moveRow(1);
      else if (event.key === "k") moveRow(-1);
      else if (event.key === "/") {
        event.preventDefault();
        document.querySelector<HTMLElement>("main input.filter")?.focus();
      } else if (event.key === " " && event.target === document.body) {
        event.preventDefault();
        acts.pause();
      }
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [acts]);
}
