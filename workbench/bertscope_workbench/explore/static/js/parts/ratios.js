// Ratios with their intervals, on a scale of equal factors; the line is at 1, no difference.

import {svg} from "../dom.js";

const [WIDTH, NAME, ROW, RIGHT, TOP] = [640, 170, 28, 70, 8];
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50];

/** @typedef {{value: number, low: number, high: number | null, verdict: string, caveat: string}} Ratio */

/** Draws ratios, a row for each. @param {{name: string, ratio: Ratio}[]} rows @param {string} axis What the ratio is, under the scale. */
export function draw(rows, axis) {
  const known = rows.flatMap(({ratio}) => [ratio.value, ratio.low, ratio.high ?? ratio.value]).filter(value => value > 0);
  const [least, most] = [Math.min(0.8, ...known) / 1.1, Math.max(1.25, ...known) * 1.1];
  const x = (/** @type {number} */ value) => NAME + ((WIDTH - NAME - RIGHT) * Math.log(Math.max(value, least) / least)) / Math.log(most / least);
  const height = TOP + rows.length * ROW + 44;
  const bottom = TOP + rows.length * ROW;
  const steps = STEPS.filter(step => step >= least && step <= most);
  return svg("svg", {class: "ratio-drawing", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `${axis}: ${rows.map(({name, ratio}) => `${name} ${said(ratio)}`).join("; ")}`},
    svg("line", {class: "one", x1: x(1), x2: x(1), y1: TOP, y2: bottom + 6}),
    steps.map(step => svg("text", {class: "axis", x: x(step), y: bottom + 20, "text-anchor": "middle"}, `${step}×`)),
    svg("text", {class: "axis", x: NAME, y: bottom + 38}, axis),
    rows.map(({name, ratio}, index) => {
      const y = TOP + index * ROW + ROW / 2;
      return svg("g", {class: ratio.verdict === "not_distinguishable" ? "unsure" : ""}, svg("title", null, said(ratio)),
        svg("text", {x: NAME - 12, y: y + 4, "text-anchor": "end"}, [...name].length > 20 ? [...name].slice(0, 19).join("") + "…" : name),
        ratio.low > 0 && ratio.high !== null && svg("line", {class: "interval", x1: x(ratio.low), x2: x(ratio.high), y1: y, y2: y}),
        svg("circle", {class: "point", cx: x(ratio.value), cy: y, r: 5}),
        svg("text", {x: WIDTH - RIGHT + 10, y: y + 4}, `${ratio.value.toFixed(2)}×`));
    }));
}

/** A ratio in words: "1.77× [1.60, 1.90]". @param {Ratio} ratio */
export function said(ratio) {
  const interval = ratio.low > 0 && ratio.high !== null ? ` [${ratio.low.toFixed(2)}, ${ratio.high.toFixed(2)}]` : "";
  return `${ratio.value.toFixed(2)}×${interval}`;
}
