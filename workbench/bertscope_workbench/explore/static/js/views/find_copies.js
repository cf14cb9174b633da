// How the command and Python ask for what the Find view shows.

import {pythonQuoted} from "../parts/copying.js";
import {write} from "../parts/units.js";

/** Stands for the codes that ship, in commands, too. */
export const SHIPPED = "embedded";

/** @typedef {import("../parts/units.js").Unit} Unit */
/** @typedef {{like: () => {like: string, word: string}, file: () => string, name: (unit: Unit) => string}} Source Where a unit comes from, unless it is the model's own. */

/** The sentence of a word in context, and where that word is in it: UTF-16 units. @param {Source} source */
function marked(source) {
  const {like: text, word} = source.like();
  const escaped = word.replace(/[^\w\s]/g, "\\$&");
  const start = Math.max(0, text.search(new RegExp(`(?<!\\w)${escaped}(?!\\w)`, "i")));
  return {text, start, end: start + word.length};
}

/** The options of the command that name a unit. @param {Unit} unit @param {Source} source @returns {string[]} */
export function shellUnit(unit, source) {
  const {text, start, end} = marked(source);
  if (unit.kind === "state") return ["--nearest", `${unit.layer}:${text.slice(0, start)}*${text.slice(start, end)}*${text.slice(end)}`];
  if (unit.kind === "probe") return ["--probe", `${unit.layer}:${source.file()}=${source.name(unit)}`];
  return ["--unit", write(unit), ...(unit.kind === "code" ? ["--codes", source.file()] : [])];
}

/** The argument of `find_contexts` that names a unit. @param {Unit} unit @param {Source} source */
export function pythonUnit(unit, source) {
  const {kind, layer, number} = unit;
  if (kind === "head" || kind === "neuron") return `${kind}s={${layer}: [${number}]}`;
  if (kind === "code") return `directions=bertscope.${source.file() === SHIPPED ? "embedded_codes()" : `SparseCodes.load(${pythonQuoted(source.file())})`}.direction(${number})`;
  if (kind === "probe") return `directions=bertscope.load_probe(${pythonQuoted(source.file())}).direction(${layer}, ${pythonQuoted(source.name(unit))})`;
  const {text, start, end} = marked(source);
  const [first, last] = [start, end].map(place => [...text.slice(0, place)].length);
  return `nearest=bertscope.NearestTo(${pythonQuoted(text)}, (${first}, ${last}), ${layer})`;
}
