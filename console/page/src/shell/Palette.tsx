// Ctrl-K: goes to any page, stream, group or cluster, and begins any action.
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useDeferredValue, useId, useState, type KeyboardEvent, type ReactElement } from "react";
import { ask, query } from "../api/calls";
import { Dialog } from "../parts/Dialog";
import { useActions } from "../state/asking";
import { usePast, useTravel } from "../state/moment";
import { openAction } from "../actions/opened";
import { pathOf, PLACES } from "./places";

interface Choice {
  id: string;
  label: string;
  kind: string;
  run: () => void;
}

const SHOWN_MAX = 40;

function useChoices(text: string, close: () => void): Choice[] {
  const navigate = useNavigate();
  const actions = useActions();
  const sought = useDeferredValue(text.trim());
  const found = useQuery({
    queryKey: ["search", sought],
    queryFn: () => ask<{ names: { key: string; kind: string; name: string }[] }>(`/api/search${query({ q: sought, limit: "30" })}`),
    staleTime: 5_000,
    placeholderData: (before) => before,
  });
  const go = (path: string) => () => {
    close();
    void navigate({ to: path });
  };
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (choice: Choice): boolean => words.every((word) => `${choice.label} ${choice.kind}`.toLowerCase().includes(word));
  const places = PLACES.map((place) => ({ id: `place ${place.path}`, label: place.label, kind: "page", run: go(place.path) }));
  const names = (found.data?.names ?? []).map((each) => ({ id: each.key, label: each.name, kind: each.kind, run: go(pathOf(each.kind, each.name)) }));
  const past = usePast();
  const travel = useTravel();
  const now = { id: "now", label: "Back to now", kind: "time", run: () => (close(), travel(0)) };
  const verbs = (past ? [] : actions).map((action) => ({
    id: `action ${action.verb}`,
    label: `${action.verb.replaceAll("-", " ")}: ${action.about}`,
    kind: "action",
    run: () => {
      close();
      openAction(action.verb);
    },
  }));
  return [...(past ? [now] : []), ...places, ...names, ...verbs].filter(fits).slice(0, SHOWN_MAX);
}

export function Palette({ onClose }: { onClose: () => void }): ReactElement {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useId();
  const choices = useChoices(text, onClose);
  const here = Math.min(at, Math.max(0, choices.length - 1));
  const pressed = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") setAt(Math.min(here + 1, choices.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(here - 1, 0));
    else if (event.key === "Enter") choices[here]?.run();
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Go anywhere, do anything" onClose={onClose} bare>
      <input
        className="palette-input"
        role="combobox"
        aria-expanded="true"
        aria-controls={list}
        aria-activedescendant={choices.length > 0 ? `${list}-${here}` : undefined}
        aria-label="Page, stream, group, cluster or action"
        placeholder="Page, stream, group, cluster or action…"
        autoFocus
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={pressed}
      />
      <ul className="palette-list" role="listbox" id={list} aria-label="Choices">
        {choices.map((choice, place) => (
          <li key={choice.id} id={`${list}-${place}`} role="option" aria-selected={place === here} onMouseEnter={() => setAt(place)} onClick={choice.run}>
            <span>{choice.label}</span>
            <span className="faint">{choice.kind}</span>
          </li>
        ))}
      </ul>
      {choices.length === 0 ? <p className="note">Nothing has that name.</p> : null}
    </Dialog>
  );
}
