// Shares that add up to one, a bar for each row; told apart by colour and by hatching.

import {h, svg} from "../dom.js";

const [WIDTH, ROW, NAME, TOP] = [560, 26, 60, 4];
/** Colours that colour-blind people tell apart (Okabe and Ito 2008), and dashes drawn over every second one. */
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999"];

/** Draws the bars. @param {{name: string, shares: number[]}[]} rows @param {string[]} names What the shares are of. @param {string} label */
export function draw(rows, names, label) {
  return svg("svg", {class: "pattern-bars", viewBox: `0 0 ${WIDTH} ${TOP + rows.length * ROW}`, role: "img",
    "aria-label": `${label}: ${rows.map(row => `${row.name} ${row.shares.map((share, index) => [share, names[index]]).filter(([share]) => Number(share) > 0).map(([share, name]) => `${name} ${Math.round(100 * Number(share))} %`).join(", ")}`).join("; ")}`},
  rows.map((row, order) => {
    const y = TOP + order * ROW;
    let x = NAME;
    return [svg("text", {x: NAME - 8, y: y + ROW / 2 + 4, "text-anchor": "end"}, row.name), row.shares.flatMap((share, index) => {
      const width = share * (WIDTH - NAME);
      const parts = share > 0 ? [svg("rect", {x, y: y + 2, width, height: ROW - 4, fill: colour(index)}, svg("title", null, `${names[index]}: ${(100 * share).toFixed(1)} %`)), hatch(x, y + 2, width, ROW - 4, index)] : [];
      x += width;
      return parts;
    })];
  }));
}

/** The key to the colours. @param {string[]} names */
export const key = names => h("ul", {class: "pattern-key"}, names.map((name, index) =>
  h("li", null, svg("svg", {viewBox: "0 0 14 14", "aria-hidden": "true"}, svg("rect", {width: 14, height: 14, fill: colour(index)}), hatch(0, 0, 14, 14, index)), name.replaceAll("_", " "))));

/** @param {number} index */
const colour = index => COLOURS[index % COLOURS.length];

/** @param {number} x @param {number} y @param {number} width @param {number} height @param {number} index */
function hatch(x, y, width, height, index) {
  if (index % 2 === 0) return null;
  const lines = [];
  for (let place = 4; place < width; place += 6) lines.push(svg("line", {x1: x + place, x2: x + place, y1: y, y2: y + height, stroke: "#14181f", "stroke-opacity": 0.45}));
  return lines;
}
