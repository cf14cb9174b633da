// Writes numbers as the command's tables do.

const UNITS = ["", "k", "M", "G", "T"];

/** A probability in per cent: "47.3 %", "< 0.1 %", with a space that does not break. @param {number} share */
export function percent(share) {
  if (share > 0 && share < 0.0005) return "< 0.1\u00a0%";
  return `${(share * 100).toFixed(1)}\u00a0%`;
}

/** A number of something: "12.2 M". @param {number} number @param {string} [unit] */
export function count(number, unit = "") {
  let index = 0;
  while (Math.abs(number) >= 1000 && index < UNITS.length - 1) { number /= 1000; index++; }
  const digits = index ? number.toPrecision(3) : String(number);
  return `${digits}${UNITS[index] || unit ? " " : ""}${UNITS[index]}${unit}`;
}

/** @param {number} seconds */
export const milliseconds = seconds => `${Math.round(seconds * 1000)} ms`;
