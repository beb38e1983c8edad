// A choice of a few, as buttons side by side.
import type { ReactElement } from "react";

interface TabsProps<T extends string> {
  label: string;
  choices: readonly (readonly [T, string])[];
  chosen: T;
  onChoose: (next: T) => void;
}

export function Tabs<T extends string>({ label, choices, chosen, onChoose }: TabsProps<T>): ReactElement {
  return (
    <div className="tabs" role="group" aria-label={label}>
      {choices.map(([id, text]) => (
        <button key={id} type="button" aria-pressed={id === chosen} onClick={() => onChoose(id)}>
          {text}
        </button>
      ))}
    </div>
  );
}
