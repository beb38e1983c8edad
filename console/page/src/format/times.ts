// Times and durations as people read them. Every time of day names its zone.

export type Zone = "utc" | "local";

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (value: number): string => String(value).padStart(2, "0");

function fields(ms: number, zone: Zone): { day: string; clock: string } {
  const at = new Date(ms);
  const utc = zone === "utc";
  const [day, month, year] = utc
    ? [at.getUTCDate(), at.getUTCMonth(), at.getUTCFullYear()]
    : [at.getDate(), at.getMonth(), at.getFullYear()];
  const [hours, minutes, seconds] = utc
    ? [at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()]
    : [at.getHours(), at.getMinutes(), at.getSeconds()];
  return { day: `${day} ${MONTHS[month]} ${year}`, clock: `${two(hours)}:${two(minutes)}:${two(seconds)}` };
}

/** Returns the zone's name at that time: `UTC`, or `UTC+02:00`. */
export function zoneName(ms: number, zone: Zone): string {
  const minutes = zone === "utc" ? 0 : -new Date(ms).getTimezoneOffset();
  if (minutes === 0) return "UTC";
  const size = Math.abs(minutes);
  return `UTC${minutes < 0 ? "-" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

/** `14:03:22 UTC`. */
export function clock(ms: number, zone: Zone): string {
  return ms > 0 ? `${fields(ms, zone).clock} ${zoneName(ms, zone)}` : "never";
}

/** `29 Nov 2026, 14:03:22 UTC`. */
export function dateTime(ms: number, zone: Zone): string {
  if (ms <= 0) return "never";
  const { day, clock: time } = fields(ms, zone);
  return `${day}, ${time} ${zoneName(ms, zone)}`;
}

function rest(value: number, unit: string): string {
  return value === 0 ? "" : `${two(value)}${unit}`;
}

/** Two units at most, as the command line prints them: `850ms`, `4.2s`, `3m12s`, `2h05m`, `3d4h`. */
export function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "unknown";
  const sign = seconds < 0 ? "-" : "";
  const size = Math.abs(seconds);
  if (size === 0) return "0s";
  if (size < 1) return `${sign}${Math.max(1, Math.round(size * 1000))}ms`;
  if (size < 9.95) return `${sign}${size.toFixed(1).replace(".0", "")}s`;
  const whole = Math.round(size);
  if (whole < 60) return `${sign}${whole}s`;
  if (whole < 3600) return `${sign}${Math.floor(whole / 60)}m${rest(whole % 60, "s")}`;
  if (whole < 86_400) return `${sign}${Math.floor(whole / 3600)}h${rest(Math.floor((whole % 3600) / 60), "m")}`;
  return `${sign}${Math.floor(whole / 86_400)}d${Math.floor((whole % 86_400) / 3600)}h`;
}

/** How long ago that was; a clock that runs ahead never makes it negative. */
export function age(ms: number, now_ms: number): string {
  return ms > 0 ? duration(Math.max(0, Math.floor((now_ms - ms) / 1000))) : "never";
}
