// Sentences with the values of a unit at their words, and how its values are spread.

import {css, inkOn, magnitude, signed} from "../colours.js";
import {h, svg} from "../dom.js";

const [WIDE, HIGH, AXIS, STEP] = [360, 90, 18, 2];

/** @typedef {[number, number, number]} Valued First code point of a word, one past its last, and its value. */
/** @typedef {{text: number, start: number, end: number, partner: [number, number] | null, value: number, from: string, tenth: number}} Place */

/** A value as it is shown. @param {number} value */
export const amount = value => (Math.abs(value) >= 1000 ? String(Math.round(value)) : value.toPrecision(3));

/** Longer texts are cut to windows of this many code points on each side of the place and of its partner. */
const [LONG, AROUND] = [400, 120];

/** The parts of a text that are shown, [first, one past the last] code point: all of a short one. @param {string[]} points @param {Place} place @returns {[number, number][]} */
function windows(points, {start, end, partner}) {
  if (points.length <= LONG) return [[0, points.length]];
  const space = (/** @type {number} */ from, /** @type {number} */ step, /** @type {number} */ last) => {
    for (let at = from; at !== last; at += step) if (/\s/.test(points[at])) return at;
    return from;
  };
  const parts = [[start, end], ...(partner ? [partner] : [])].sort((a, b) => a[0] - b[0]).map(([from, to]) => /** @type {[number, number]} */ ([
    from > AROUND ? space(from - AROUND, 1, from) : 0, to + AROUND < points.length ? space(to + AROUND, -1, to) : points.length]));
  return parts.length > 1 && parts[1][0] <= parts[0][1] ? [[parts[0][0], Math.max(parts[0][1], parts[1][1])]] : parts;
}

/** The colour of a value: by lightness, and by another hue below 0. @param {number} value @param {number} most @param {"light" | "dark"} theme */
const colourOf = (value, most, theme) => (value < 0 ? signed(value / most, theme) : magnitude(value / most, theme));

/**
 * A sentence with words coloured by their values; the word of the place is framed, its partner underlined. A long text is cut around both.
 * @param {string} text @param {Place} place @param {Valued[]} values @param {number} most The largest value, without its sign. @param {"light" | "dark"} theme
 */
export function words(text, place, values, most, theme) {
  const points = [...text];
  const here = values.some(([start]) => start === place.start) ? values : [...values, /** @type {Valued} */ ([place.start, place.end, place.value])];
  const marked = [...here, ...(place.partner && !here.some(([start]) => start === place.partner?.[0]) ? [[...place.partner, 0]] : [])].sort((a, b) => a[0] - b[0]);
  return windows(points, place).flatMap(([first, last]) => [first > 0 && "… ", valued(points, marked, place, most, theme, first, last), last < points.length && " …"]);
}

/** The part of a text from one code point to another. @param {string[]} points @param {Valued[]} marked @param {Place} place @param {number} most @param {"light" | "dark"} theme @param {number} first @param {number} last */
function valued(points, marked, place, most, theme, first, last) {
  const parts = [];
  let done = first;
  for (const [start, end, value] of marked) {
    if (start < done || end > last) continue;
    const colour = colourOf(value, most || 1, theme);
    const own = start === place.start;
    const partner = start === place.partner?.[0];
    parts.push(points.slice(done, start).join(""), h("span", {class: `context-word${own ? " own" : ""}${partner ? " partner" : ""}`, title: `${amount(value)}${own ? ", the place" : ""}${partner ? ", what it attends to" : ""}`,
      style: {"background-color": css(colour), color: inkOn(colour)}}, points.slice(start, end).join("")));
    done = end;
  }
  return [...parts, points.slice(done, last).join("")];
}

/** Draws how many places have which values: below the first edge, between two, from the last one on. @param {number[]} edges @param {number[]} counts @param {string} unit */
export function histogram(edges, counts, unit) {
  const most = Math.max(1, ...counts);
  const wide = WIDE / counts.length;
  const ends = [edges[0], edges[edges.length - 1]].map(amount);
  const bin = (/** @type {number} */ index) => (index === 0 ? `below ${ends[0]}` : index === edges.length ? `from ${ends[1]} on` : `${amount(edges[index - 1])} to ${amount(edges[index])}`);
  return svg("svg", {class: "context-histogram", viewBox: `0 0 ${WIDE} ${HIGH + AXIS}`, role: "img", "aria-label": `Places by value, from ${ends[0]} to ${ends[1]}; the most in a bin: ${most}`},
    counts.map((count, index) => svg("rect", {x: index * wide, y: HIGH - (HIGH * count) / most, width: Math.max(1, wide - STEP), height: (HIGH * count) / most},
      svg("title", null, `${bin(index)}: ${count} ${count === 1 ? "place" : "places"}`))),
    svg("text", {x: 0, y: HIGH + 14}, `below ${ends[0]}`), svg("text", {x: WIDE, y: HIGH + 14, "text-anchor": "end"}, `from ${ends[1]} on, ${unit}`));
}
