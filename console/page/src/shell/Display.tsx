// How the console looks for this person: theme, zone of times, density.
import type { ReactElement } from "react";
import { Dialog } from "../parts/Dialog";
import { setPreference, usePreferences, type Preferences } from "../state/preferences";

interface Choice<K extends keyof Preferences> {
  name: K;
  label: string;
  choices: readonly (readonly [Preferences[K], string])[];
}

function Choose<K extends keyof Preferences>({ name, label, choices }: Choice<K>): ReactElement {
  const chosen = usePreferences()[name];
  return (
    <fieldset className="choose">
      <legend>{label}</legend>
      {choices.map(([value, text]) => (
        <label key={value}>
          <input type="radio" name={name} checked={chosen === value} onChange={() => setPreference(name, value)} />
          {text}
        </label>
      ))}
    </fieldset>
  );
}

export function Display({ onClose }: { onClose: () => void }): ReactElement {
  return (
    <Dialog title="Display" onClose={onClose}>
      <Choose name="theme" label="Theme" choices={[["system", "as the system"], ["light", "light"], ["dark", "dark"]]} />
      <Choose name="zone" label="Times" choices={[["utc", "UTC"], ["local", "my time zone"]]} />
      <Choose name="density" label="Rows" choices={[["compact", "compact"], ["roomy", "roomy"]]} />
      <p className="faint">Kept in this browser.</p>
    </Dialog>
  );
}
