// Sentences with the values of a unit at their words, and how its values are spread.

import {css, inkOn, magnitude, signed} from "../colours.js";
import {h, svg} from "../dom.js";

const [WIDE, HIGH, AXIS, STEP] = [360, 90, 18, 2];

/** @typedef {[number, number, number]} Valued First code point of a word, one past its last, and its value. */
/** @typedef {{text: number, start: number, end: number, partner: [number, number] | null, value: number, from: string, tenth: number}} Place */

/** A value as it is shown. @param {number} value */
export const amount = value => String(Number(value.toPrecision(3)));

/** The colour of a value: by lightness, and by another hue below 0. @param {number} value @param {number} most @param {"light" | "dark"} theme */
const colourOf = (value, most, theme) => (value < 0 ? signed(value / most, theme) : magnitude(value / most, theme));

/**
 * A sentence with words coloured by their values; the word of the place is framed, its partner underlined.
 * @param {string} text @param {Place} place @param {Valued[]} values @param {number} most The largest value, without its sign. @param {"light" | "dark"} theme
 */
export function words(text, place, values, most, theme) {
  const points = [...text];
  const here = values.some(([start]) => start === place.start) ? values : [...values, /** @type {Valued} */ ([place.start, place.end, place.value])];
  const parts = [];
  let done = 0;
  const marked = [...here, ...(place.partner && !here.some(([start]) => start === place.partner?.[0]) ? [[...place.partner, 0]] : [])].sort((a, b) => a[0] - b[0]);
  for (const [start, end, value] of marked) {
    if (start < done) continue;
    const colour = colourOf(value, most || 1, theme);
    const own = start === place.start;
    const partner = start === place.partner?.[0];
    parts.push(points.slice(done, start).join(""), h("span", {class: `context-word${own ? " own" : ""}${partner ? " partner" : ""}`, title: `${amount(value)}${own ? ", the place" : ""}${partner ? ", what it attends to" : ""}`,
      style: {"background-color": css(colour), color: inkOn(colour)}}, points.slice(start, end).join("")));
    done = end;
  }
  return [...parts, points.slice(done).join("")];
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
    svg("text", {x: wide, y: HIGH + 14}, ends[0]), svg("text", {x: WIDE - wide, y: HIGH + 14, "text-anchor": "end"}, `${ends[1]} ${unit}`));
}
