// Whether the page is being printed: tables then hold all of their rows, not only those in sight.
import { useEffect, useState } from "react";
import { flushSync } from "react-dom";

/** The browser takes the page as it is when its announcement returns: the change is drawn before that. */
export function usePrinting(): boolean {
  const [printing, setPrinting] = useState(false);
  useEffect(() => {
    const begun = (): void => {
      // Charts read their colours from the style as it is on the screen.
      document.documentElement.dataset["paper"] = "";
      flushSync(() => setPrinting(true));
    };
    const ended = (): void => {
      delete document.documentElement.dataset["paper"];
      setPrinting(false);
    };
    window.addEventListener("beforeprint", begun);
    window.addEventListener("afterprint", ended);
    return () => {
      window.removeEventListener("beforeprint", begun);
      window.removeEventListener("afterprint", ended);
    };
  }, []);
  return printing;
}
