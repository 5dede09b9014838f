// Numbers as text: three significant digits, and a unit.

const RATES = [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"], [1, "bit/s"]];
const SIZES = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];
const TIMES = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]];

const UNKNOWN = "–";

function digits(value) {
  const size = Math.abs(value);
  if (size >= 99.95) return value.toFixed(0);
  return value.toFixed(size >= 9.995 ? 1 : 2);
}

function scaled(value, units) {
  if (value === null || value === undefined || Number.isNaN(value)) return UNKNOWN;
  if (value === 0) return `0 ${units[units.length - 1][1]}`;
  // 999.5 and above would be shown as 1000.
  const [scale, unit] = units.find(([scale]) => Math.abs(value) >= 0.9995 * scale) ?? units[units.length - 1];
  return `${digits(value / scale)} ${unit}`;
}

export const rate = (bps) => scaled(bps, RATES);
export const size = (bytes) => (bytes !== null && bytes < 1000 ? `${Math.round(bytes)} B` : scaled(bytes, SIZES));
export const time = (seconds) => (seconds === 0 ? "0 s" : scaled(seconds, TIMES));
export const count = (number) => (number === null || number === undefined ? UNKNOWN : Math.round(number).toLocaleString("en"));

export function share(part) {
  if (part === null || part === undefined || Number.isNaN(part)) return UNKNOWN;
  return part === 0 ? "0 %" : part < 0.0001 ? "< 0.01 %" : `${digits(part * 100)} %`;
}

// A duration in its two largest units.
export function duration(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  let rest = Math.round(seconds);
  const shown = [];
  for (const [length, unit] of parts) {
    const whole = Math.floor(rest / length);
    if (whole > 0 || (unit === "s" && shown.length === 0)) shown.push(`${whole} ${unit}`);
    rest -= whole * length;
    if (shown.length === 2) break;
  }
  return shown.join(" ");
}

export const clock = (seconds, withSeconds = true) =>
  new Date(seconds * 1000).toLocaleTimeString("en-GB", {
    hour: "2-digit", minute: "2-digit", ...(withSeconds && { second: "2-digit" }),
  });

// When something happened, with the date if that is another day's.
export function when(seconds) {
  const date = new Date(seconds * 1000);
  if (date.toDateString() === new Date().toDateString()) return clock(seconds);
  return `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" })} ${clock(seconds)}`;
}

// A moment of a run.
export const moment = (seconds) => `${digits(seconds)} s`;
