// Numbers as people read them: thousands apart, base units, no false precision.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function count(value: number): string {
  return whole.format(value);
}

export function rate(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return "0/s";
  return `${size < 10 ? value.toFixed(1) : whole.format(value)}/s`;
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

export function percent(share: number): string {
  return `${share > 0 && share < 0.01 ? "<1" : Math.round(share * 100)} %`;
}

/** `1 group`, `2 groups`; the plural may be irregular. */
export function counted(value: number, noun: string, plural = `${noun}s`): string {
  return `${count(value)} ${value === 1 ? noun : plural}`;
}

const COUNTER = 2 ** 40;

/** An epoch as commands print it, for example `3.117`: the store's incarnation, and a counter. */
export function epochText(epoch: number): string {
  return Number.isSafeInteger(epoch) ? `${Math.floor(epoch / COUNTER)}.${epoch % COUNTER}` : String(epoch);
}
