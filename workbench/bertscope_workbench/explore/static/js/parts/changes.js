// Changes of heads: how they are named, kept in the fragment, sent and drawn.

import {h} from "../dom.js";

/** @typedef {{kind: string, factor: number}} Change */
/** @typedef {Map<string, Change>} Changes By "layer.head". */

/** The kinds of change, by their letter in the fragment: the mode that the server knows, the sign in the grid, words. */
export const KINDS = {
  x: {mode: "zero", glyph: "✕", verb: "silences", done: "silenced", key: "x", class: "silenced"},
  u: {mode: "uniform", glyph: "=", verb: "flattens", done: "flattened", key: "f", class: "flattened"},
  s: {mode: "scale", glyph: "½", verb: "scales", done: "scaled", key: "s", class: "scaled"},
  m: {mode: "mean", glyph: "μ", verb: "averages", done: "averaged", key: "r", class: "averaged"},
};

/** @param {string} kind */
export const kindOf = kind => KINDS[/** @type {keyof typeof KINDS} */ (kind)];

/** Reads "x1-8-9_u3-0_s5-11*0.5": kind, layer, heads, factor. What is not understood is left out. @param {string} text @returns {Changes} */
export function read(text) {
  const changes = new Map();
  for (const item of (text ?? "").split("_")) {
    const found = /^([xusm])(\d+)((?:-\d+)+)(?:\*(\d+(?:\.\d+)?))?$/.exec(item);
    if (!found || (found[1] === "s") !== (found[4] !== undefined)) continue;
    for (const head of found[3].split("-").slice(1)) {
      changes.set(`${Number(found[2])}.${Number(head)}`, {kind: found[1], factor: Number(found[4] ?? 0)});
    }
  }
  return changes;
}

/** @param {Changes} changes */
export const write = changes => groups(changes)
  .map(({kind, layer, heads, factor}) => `${kind}${layer}-${heads.join("-")}${kind === "s" ? `*${factor}` : ""}`).join("_");

/** The changes by kind, factor and layer, in order. @param {Changes} changes
 * @returns {{kind: string, factor: number, layer: number, heads: number[]}[]} */
export function groups(changes) {
  const found = new Map();
  const places = [...changes].map(([place, change]) => [...place.split(".").map(Number), change])
    .sort((a, b) => Number(a[0]) - Number(b[0]) || Number(a[1]) - Number(b[1]));
  for (const [layer, head, change] of /** @type {[number, number, Change][]} */ (places)) {
    const name = `${change.kind} ${change.factor} ${layer}`;
    if (!found.has(name)) found.set(name, {...change, layer, heads: []});
    found.get(name).heads.push(head);
  }
  return [...found.values()];
}

/** The changes as the page's server takes them. @param {Changes} changes */
export const asked = changes => groups(changes)
  .map(({kind, layer, heads, factor}) => ({layer, heads, mode: kindOf(kind).mode, ...(kind === "s" && {factor})}));

/** A sign in the shape of its kind, which tells kinds apart without their colours. @param {string} kind @param {string} sign */
export const mark = (kind, sign) => h("span", {class: `mark ${kindOf(kind)?.class ?? ""}`, "aria-hidden": "true"}, sign);

/** The sign of a change: "✕", "½", "×0.3". @param {Change} change */
export function glyph({kind, factor}) {
  if (kind !== "s") return kindOf(kind).glyph;
  return factor === 0.5 ? "½" : `×${factor}`;
}

/** The options of a command. @param {Changes} changes @returns {string[]} */
export const options = changes => groups(changes).flatMap(({kind, layer, heads, factor}) =>
  [`--${kindOf(kind).mode}`, `${layer}:${heads.join(",")}${kind === "s" ? `=${factor}` : ""}`]);

/** The Python of the list of interventions. @param {Changes} changes */
export const python = changes => "[" + groups(changes).map(({kind, layer, heads, factor}) =>
  `bertscope.${kindOf(kind).mode}(${layer}, [${heads.join(", ")}]${kind === "s" ? `, factor=${factor}` : ""})`).join(", ") + "]";
