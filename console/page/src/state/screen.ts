// Whether the screen is as narrow as a phone's: there some diagrams are laid out anew, which no style sheet can do.
import { useSyncExternalStore } from "react";

/** As in `shell.css`. */
const NARROW = "(max-width: 760px)";

function subscribe(listener: () => void): () => void {
  const screen = matchMedia(NARROW);
  screen.addEventListener("change", listener);
  return () => screen.removeEventListener("change", listener);
}

export function useNarrow(): boolean {
  return useSyncExternalStore(subscribe, () => matchMedia(NARROW).matches);
}
