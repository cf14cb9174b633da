// The panel of one head: its attention as lines or matrix, in a sentence, with its options.

import {choice, h, replace, svg} from "../dom.js";
import {percent} from "../format.js";
import {means} from "../numbers.js";
import {create as createLines} from "./attention_lines.js";
import {create as createMatrix} from "./attention_matrix.js";

const MOST_LINES = 40;
const DEFAULT_THRESHOLD = 0.02;

/**
 * Makes the panel.
 * @param {(patch: Record<string, string | null>, push: boolean) => void} set Changes the state.
 * @param {(row: number) => void} masked Gets the index of a token to mask.
 * @param {(layer: number, head: number) => Node} elsewhere Makes the link to where else a head does this.
 */
export function create(set, masked, elsewhere) {
  const chosen = (/** @type {number} */ row) => set({row: String(row)}, false);
  const read = h("p", {class: "soft readout"});
  const lines = createLines(chosen, masked);
  const matrix = createMatrix(chosen, (rows, columns) => set({window: [...rows, ...columns].join("-")}, true), text => { read.textContent = text; });
  const title = h("h2", null, "Attention");
  const form = choice("Draw as", [["lines", "Lines"], ["matrix", "Matrix"]], "lines", value => set({as: value === "lines" ? "lines" : "matrix"}, true));
  const special = h("input", {type: "checkbox", onchange: () => set({special: special.checked ? null : "hidden"}, true)});
  const words = h("input", {type: "checkbox", onchange: () => set({words: words.checked ? "1" : null, row: null, window: null}, true)});
  const threshold = h("input", {type: "range", min: "0", max: "0.5", step: "0.01", "aria-label": "Lines from this weight on", ...means("weight"),
    oninput: () => set({threshold: threshold.value}, false)});
  const thresholdLabel = h("label", {class: "inline"}, "from ", threshold, h("span", {class: "threshold-value"}));
  const whole = h("button", {type: "button", hidden: true, onclick: () => set({window: null}, true)}, "Whole text");
  const large = h("button", {type: "button", class: "icon-button", "aria-label": "Enlarge", title: "Enlarge", onclick: () => set({large: large.getAttribute("aria-pressed") === "true" ? null : "1"}, true)},
    svg("svg", {viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true", class: "icon"}, svg("path", {d: "M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4"})));
  const link = h("span");
  const sentence = h("p", {class: "looks", ...means("weight")});
  const drawing = h("div", {class: "head-drawing"});
  const element = h("section", {class: "panel detail", "aria-label": "Attention of one head"},
    h("header", null, title, form.element, large),
    h("div", {class: "detail-options"}, h("label", {class: "inline"}, special, "special tokens"), h("label", {class: "inline"}, words, "whole words"), thresholdLabel, whole, link),
    sentence, drawing, read);

  return {
    element,
    /** What a question answers. */ results: [sentence, drawing],
    /** The drawing that is shown. */
    toSvg: () => (drawing.firstElementChild === lines.element ? lines.toSvg() : matrix.toSvg()),
    /**
     * @param {{state: Record<string, string>, at: number[] | null, tokens: any[], map: import("./maps.js").Maps | null, moved: number[][] | null, row: number, theme: "light" | "dark"}} data
     */
    update({state, at, tokens, map, moved, row, theme}) {
      title.textContent = at ? `Layer ${at[0]}, head ${at[1]}` : "Attention";
      const pooled = Boolean(map && (map.cellSize > 1 || map.rows < tokens.length));
      const short = tokens.length <= MOST_LINES && !pooled;
      const as = !short ? "matrix" : state.as || "lines";
      replace(link, at && elsewhere(at[0], at[1]));
      form.set(as);
      form.element.disabled = !short;
      form.element.title = short ? "" : `Lines are for texts of up to ${MOST_LINES} tokens`;
      special.checked = state.special !== "hidden";
      special.disabled = pooled;
      words.checked = state.words === "1";
      const least = Number(state.threshold || DEFAULT_THRESHOLD);
      threshold.value = String(least);
      thresholdLabel.hidden = as !== "lines";
      thresholdLabel.lastChild.textContent = percent(least);
      whole.hidden = !state.window;
      large.setAttribute("aria-pressed", String(state.large === "1"));
      if (!map || !at) return;
      const data = {tokens, map, row, special: special.checked, threshold: least, theme};
      const part = as === "lines" ? lines : matrix;
      if (drawing.firstElementChild !== part.element) replace(drawing, part.element);
      part.update(data);
      replace(sentence, ...inWords(data, moved?.[at[0]]?.[at[1]]));
    },
  };
}

/** The row in a sentence. @param {import("./attention_lines.js").HeadData} data @param {number | undefined} moved */
function inWords({tokens, map, row, special}, moved) {
  const went = moved ? ` ${percent(moved)} of this head's attention went elsewhere with the changes.` : "";
  const order = map.cellSize > 1 ? -1 : row - map.rowRange[0];
  if (order < 0 || order >= map.rows) return [map.cellSize > 1 ? "Each cell is the largest weight of several tokens; click to look into it." : "", went];
  const best = [...Array(map.columns).keys()]
    .map(column => ({token: tokens[map.columnRange[0] + column], share: map.cells[order * map.columns + column] / map.most}))
    .filter(({token, share}) => (special || !token.special) && share >= 0.02).sort((a, b) => b.share - a.share).slice(0, 4);
  if (!best.length) return [h("mark", null, tokens[row].text), " looks at nothing that is shown.", went];
  const parts = best.flatMap(({token, share}, index) => [index ? (index === best.length - 1 ? " and " : ", ") : "", h("mark", null, token.text), ` ${percent(share)}`]);
  return [h("mark", null, tokens[row].text), " looks at ", ...parts, ".", went];
}
