// Curves with bands for their intervals: axes with names, a mark for each curve, both themes.

import {series} from "../colours.js";
import {replace, svg} from "../dom.js";

const [WIDTH, NARROW, HEIGHT, LEFT, RIGHT, TOP, BOTTOM, LINE] = [720, 300, 320, 82, 16, 12, 46, 20];
const [INDENT, LETTER] = [20, 7.6];
const MARK = 4.5;
const PATHS = ["M-1,0a1,1 0 1,0 2,0a1,1 0 1,0 -2,0", "M-.9,-.9h1.8v1.8h-1.8z", "M0,-1.2L1.1,.9H-1.1z", "M0,-1.3L1.2,0L0,1.3L-1.2,0z", "M0,1.2L1.1,-.9H-1.1z", "M-.4,-1.2h.8v.8h.8v.8h-.8v.8h-.8v-.8h-.8v-.8h.8z"];
const TICKS = 5;

/** @typedef {{x: number, y: number, low?: number | null, high?: number | null}} Point */
/** @typedef {{name: string, number: number, baseline?: boolean, points: Point[]}} Series `number` gives colour and mark; a baseline is dashed, without marks. */
/** @typedef {{series: Series[], x: string, y: string, range?: [number, number] | null, said: (value: number) => string, tick?: (value: number) => string, theme: "light" | "dark", label: string}} Curves
 * `range` is what is possible: the axis shows all of it, and bands end there; without it the axis holds all points and 0. */

/** Makes a picture of curves. */
export function create() {
  const element = document.createElement("div");
  element.className = "curve";
  /** @type {Curves | null} */ let shown = null;
  let width = 0;
  const draw = () => { replace(element, shown && shown.series.some(({points}) => points.length) && drawing(shown, Math.max(width || WIDTH, NARROW))); };
  new ResizeObserver(() => {
    if (Math.abs(element.clientWidth - width) < 2) return;
    width = element.clientWidth;
    draw();
  }).observe(element);
  return {
    element,
    /** @param {Curves | null} data */
    update(data) {
      shown = data;
      draw();
    },
    /** @returns {SVGSVGElement | null} */
    toSvg: () => element.querySelector("svg"),
  };
}

/** @param {Curves} data @param {number} width Pixels, so that letters keep their size on a narrow page. */
function drawing(data, width) {
  const points = data.series.flatMap(({points: all}) => all);
  const xs = [...new Set(points.map(({x}) => x))].sort((a, b) => a - b);
  const [least, most] = data.range ?? reach(points);
  const place = (/** @type {number} */ x) => LEFT + 14 + ((width - LEFT - RIGHT - 28) * (x - xs[0])) / (xs[xs.length - 1] - xs[0] || 1);
  const height = (/** @type {number} */ y) => TOP + ((HEIGHT - TOP - BOTTOM) * (most - Math.min(Math.max(y, least), most))) / (most - least);
  const colours = getComputedStyle(document.documentElement);
  const [ink, soft, line] = ["--text", "--text-soft", "--line"].map(name => colours.getPropertyValue(name));
  const result = svg("svg", {viewBox: `0 0 ${width} ${HEIGHT + data.series.length * LINE}`, role: "img", "aria-label": data.label, fill: ink, "font-family": "sans-serif", "font-size": 13});
  for (let tick = 0; tick <= TICKS; tick++) {
    const value = least + ((most - least) * tick) / TICKS;
    result.append(svg("line", {x1: LEFT, x2: width - RIGHT, y1: height(value), y2: height(value), stroke: line}),
      svg("text", {x: LEFT - 8, y: height(value) + 4, "text-anchor": "end", fill: soft}, (data.tick ?? data.said)(value)));
  }
  const every = Math.ceil((Math.max(...xs.map(each => String(each).length)) * LETTER + 11) * xs.length / (width - LEFT - RIGHT));
  xs.forEach((x, index) => index % every || result.append(svg("text", {x: place(x), y: HEIGHT - BOTTOM + 20, "text-anchor": "middle", fill: soft}, String(x))));
  result.append(svg("text", {x: (LEFT + width - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle"}, data.x),
    svg("text", {transform: `translate(13 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle"}, data.y));
  data.series.forEach((one, index) => result.append(curve(one, place, height, data), legend(one, HEIGHT + index * LINE + 12, width, data.theme)));
  return result;
}

/** @param {Series} one @param {(x: number) => number} place @param {(y: number) => number} height @param {Curves} data */
function curve(one, place, height, data) {
  const colour = series(one.number, data.theme);
  const path = (/** @type {[number, number][]} */ way) => way.map(([x, y], index) => `${index ? "L" : "M"}${place(x).toFixed(1)},${height(y).toFixed(1)}`).join("");
  const group = svg("g", null);
  const banded = one.points.filter(({low, high}) => Number.isFinite(low) && Number.isFinite(high));
  if (banded.length > 1) {
    const edge = [...banded.map(({x, high}) => [x, high]), ...banded.reverse().map(({x, low}) => [x, low])];
    group.append(svg("path", {d: `${path(/** @type {any} */ (edge))}Z`, fill: colour, "fill-opacity": 0.16}));
  } else if (banded.length) {
    const [{x, low, high}] = banded;
    group.append(svg("line", {x1: place(x), x2: place(x), y1: height(Number(low)), y2: height(Number(high)), stroke: colour, "stroke-width": 2}));
  }
  group.append(svg("path", {d: path(one.points.map(({x, y}) => [x, y])), fill: "none", stroke: colour, "stroke-width": one.baseline ? 1.4 : 2, "stroke-dasharray": one.baseline && "5 4"}));
  for (const point of one.points) {
    const said = `${one.name}, ${point.x}: ${data.said(point.y)}${Number.isFinite(point.low) ? `, ${data.said(Number(point.low))} to ${data.said(Number(point.high))}` : ""}`;
    group.append(mark(one, place(point.x), height(point.y), colour, svg("title", null, said)));
  }
  return group;
}

/** @param {Series} one @param {number} x @param {number} y @param {string} colour @param {any} [title] */
function mark(one, x, y, colour, title) {
  return svg("path", {d: PATHS[one.number % PATHS.length], transform: `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${one.baseline ? MARK / 2 : MARK})`, fill: colour}, title);
}

/** @param {Series} one @param {number} y @param {number} width @param {"light" | "dark"} theme */
function legend(one, y, width, theme) {
  const points = [...one.name];
  const most = Math.floor((width - INDENT - 38) / LETTER);
  const name = points.length > most ? `${points.slice(0, most - 1).join("")}…` : one.name;
  const colour = series(one.number, theme);
  return svg("g", null, svg("line", {x1: INDENT, x2: INDENT + 30, y1: y, y2: y, stroke: colour, "stroke-width": one.baseline ? 1.4 : 2, "stroke-dasharray": one.baseline && "5 4"}),
    mark(one, INDENT + 15, y, colour), svg("text", {x: INDENT + 38, y: y + 4}, name, svg("title", null, one.name)));
}

/** The ends of an axis that holds the points and 0. @param {Point[]} points @returns {[number, number]} */
function reach(points) {
  const values = points.flatMap(({y, low, high}) => [y, low ?? y, high ?? y]);
  const [least, most] = [Math.min(0, ...values), Math.max(0, ...values)];
  if (most === least) return [0, 1];
  const rough = (most - least) / TICKS;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = /** @type {number} */ ([1, 2, 2.5, 5, 10, 20].find(each => each * unit >= rough && Math.floor(least / (each * unit)) + TICKS >= most / (each * unit))) * unit;
  const low = Math.floor(least / step) * step;
  return [low, low + TICKS * step];
}
