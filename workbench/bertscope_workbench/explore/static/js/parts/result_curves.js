// The curves of a result: scores by layer, or by the share of heads that were removed, with a choice of what is shown.

import {h, replace} from "../dom.js";
import {percent} from "../format.js";
import {create as createCurve} from "./curve.js";

const AXES = /** @type {Record<string, string>} */ ({layer: "layer (0: the embeddings)", share_removed: "share of all heads that are removed"});
/** Effects of layers, which a metric is of, count no embeddings. */
const EFFECTS = "layer";
/** Shares, which can only lie between 0 and 1. */
const SHARES = new Set(["accuracy", "share", "control", "first_answer", "reciprocal_rank", "token_accuracy", "entity_f1"]);

/** @typedef {{across: string, measures: Record<string, {name: string, points: import("./curve.js").Point[]}[]>}} Found */

/** Makes the panel. @param {any} context */
export function create(context) {
  const {state} = context;
  const curve = createCurve();
  const element = h("div", null);
  return {
    element,
    toSvg: curve.toSvg,
    /** @param {Found} found */
    update({across, measures}) {
      const names = Object.keys(measures);
      const measure = names.includes(state.get().measure) ? state.get().measure : names[0];
      const picker = h("select", {onchange: () => state.set({measure: picker.value})}, names.map(each => h("option", {value: each, selected: each === measure}, said(each))));
      const axis = across === "layer" && measure.includes(": ") ? EFFECTS : AXES[across];
      const series = measures[measure].map(({name, points}, number) => ({name: said(name || measure), number, points}));
      const share = SHARES.has(measure.replace(/: score$/, "")) && series.every(({points}) => points.every(({y}) => y >= 0 && y <= 1));
      const number = share ? percent : (/** @type {number} */ value) => String(Number(value.toPrecision(3)));
      const whole = (/** @type {number} */ value) => `${Math.round(100 * value)}\u00a0%`;
      curve.update({series, x: axis, y: said(measure), range: share ? [0, 1] : null, said: number, tick: share ? whole : number, place: across === "share_removed" ? whole : String, theme: context.theme(),
        label: `${said(measure)} by ${axis}: ${series.map(({name}) => name).join("; ")}`});
      replace(element, names.length > 1 && h("label", {class: "inline"}, "Show", picker), curve.element);
    },
  };
}

/** @param {string} name */
const said = name => name.replaceAll("_", " ").replaceAll(".", ", ");
