// Units of a model that the Find view knows: their written form, their names, and links that ask where they are largest.

import {h} from "../dom.js";

/** @typedef {{kind: string, layer: number, number: number}} Unit */

const NAMES = /** @type {Record<string, string>} */ ({head: "head", neuron: "neuron", probe: "class", code: "code"});

/** Reads "head:4:10", "neuron:3:217" or "state:6"; null for anything else. @param {string | undefined} text @returns {Unit | null} */
export function read(text) {
  const found = /^(?:(head|neuron|probe|code):(\d{1,4}):(\d{1,6})|(state):(\d{1,4}))$/.exec(text ?? "");
  if (!found) return null;
  return found[4] ? {kind: found[4], layer: Number(found[5]), number: 0} : {kind: found[1], layer: Number(found[2]), number: Number(found[3])};
}

/** @param {Unit} unit */
export const write = ({kind, layer, number}) => (kind === "state" ? `state:${layer}` : `${kind}:${layer}:${number}`);

/** A unit in words. @param {Unit} unit */
export const said = ({kind, layer, number}) => (kind === "state" ? `states of layer ${layer}` : `layer ${layer}, ${NAMES[kind]} ${number}`);

/** True for what a file holds: classes of probes, sparse codes. @param {Unit} unit */
export const inFile = ({kind}) => kind === "probe" || kind === "code";

/** A link to the sentences where a unit is largest. @param {any} state @param {Unit} unit @param {string} [text] */
export function findLink(state, unit, text = "Where else?") {
  return h("a", {class: "find-link", href: state.link({view: "find", unit: write(unit)}).slice(window.location.origin.length + 1), title: `Sentences where ${said(unit)} is largest`}, text);
}
