// A dialog of the browser's own: it keeps the focus inside, closes by Escape, and gives the focus back.
import { useId, useLayoutEffect, useRef, type ReactElement, type ReactNode } from "react";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
  wide?: boolean;
  bare?: boolean;
}

export function Dialog({ title, onClose, children, wide = false, bare = false }: DialogProps): ReactElement {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  // It is closed while it is still in the document: only then the browser gives the focus back.
  useLayoutEffect(() => {
    const element = dialog.current;
    if (element !== null && !element.open) element.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      className={`dialog${wide ? " wide" : ""}${bare ? " bare" : ""}`}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown={(event) => {
        if (event.target === dialog.current) onClose();
      }}
    >
      <div className="dialog-body">
        <header className={bare ? "visually-hidden" : "dialog-head"}>
          <h2 id={heading}>{title}</h2>
          {bare ? null : (
            <button type="button" className="quiet" aria-label="Close" onClick={onClose}>
              ✕
            </button>
          )}
        </header>
        {children}
      </div>
    </dialog>
  );
}
