// What heads do in the rows of the Sentences view: a statistic of each head over them, and the kinds of maps in each layer.

import {h, replace} from "../dom.js";
import {STATISTICS, means} from "../numbers.js";
import {create as createGrid, largestOf} from "../parts/head_grid.js";
import {draw as drawBars, key as barsKey} from "../parts/stacked_bars.js";
import {findLink} from "../parts/units.js";

/** @typedef {import("./sentences_row.js").Row} Row */

/** Makes the part. A head that is clicked has a column of the table, which is sorted by it. @param {any} context */
export function createHeads(context) {
  const {state} = context;
  const statistic = h("select", {onchange: () => state.set({sentences_show: statistic.value})}, Object.entries(STATISTICS).map(([name, each]) => h("option", {value: name, title: each.meaning}, withUnit(each))));
  const grid = createGrid((places, first) => { if (places.length === 1) state.set({at: places[0], table_sort: "-head"}, {push: first}); }, () => {});
  const note = h("p", {class: "soft"});
  const elsewhere = h("span");
  const bars = h("div", means("kinds"));
  const element = h("div", {class: "sentences-panels", hidden: true},
    h("section", {class: "panel", "aria-label": "Heads"}, h("header", null, h("h2", null, "Heads over these sentences"), elsewhere), h("label", {class: "inline"}, "What heads do: ", statistic), note, h("div", {class: "grid-scroll"}, grid.element)),
    h("section", {class: "panel", "aria-label": "Kinds of maps"}, h("header", null, h("h2", null, "Kinds of maps by layer")), bars));

  /** The chosen statistic. */
  function shown() {
    const name = state.get().sentences_show ?? "";
    return name in STATISTICS ? name : "first_special";
  }
  /** The chosen head. */
  const at = () => (/^(\d+)\.(\d+)$/.exec(state.get().at ?? "") ?? ["", "0", "0"]).slice(1).map(Number);
  const valueOf = (/** @type {Row} */ row) => row.found?.statistics?.[shown()]?.[at()[0]]?.[at()[1]];

  return {
    element,
    drawings: [{label: "Heads", svg: grid.toSvg}, {label: "Kinds of maps", svg: () => bars.querySelector("svg")}],
    shown,
    caption: () => withUnit(STATISTICS[shown()]),
    /** The column of the chosen head. @returns {import("../parts/data_table.js").Column} */
    column: () => ({key: "head", title: `Layer ${at()[0]}, head ${at()[1]}`, number: shown(), type: "number", value: valueOf}),
    /** @param {Row[]} rows */
    update(rows) {
      statistic.value = shown();
      const read = rows.filter(row => row.found?.patterns);
      element.hidden = !read.length;
      if (!read.length) return;
      const known = read.filter(row => row.found.statistics[shown()]);
      const [layers, heads] = [read[0].found.patterns.length, read[0].found.patterns[0].length];
      const mean = known.length ? range(layers).map(layer => range(heads).map(head => known.reduce((sum, row) => sum + row.found.statistics[shown()][layer][head], 0) / known.length)) : null;
      const data = {layers, heads, show: /** @type {"moved"} */ ("moved"), pictures: null, moved: mean, worth: new Map(), changes: new Map(), at: at().join("."), theme: context.theme(), said: amount, described: context.described()};
      grid.update(data);
      note.dataset.number = shown();
      note.title = means(shown()).title;
      note.textContent = mean ? `Mean over ${known.length} ${known.length === 1 ? "sentence" : "sentences"}, up to ${amount(largestOf(data))}. A click on a head shows in which sentences it does it most.` : "No sentence has this number: it needs pairs of texts.";
      replace(elsewhere, findLink(state, {kind: "head", layer: at()[0], number: at()[1]}, "At which words?"));
      const names = [...new Set(read.flatMap(row => row.found.patterns.flat()))].filter(Boolean).sort();
      replace(bars, drawBars(range(layers).map(layer => ({name: `layer ${layer}`,
        shares: names.map(name => read.reduce((sum, row) => sum + row.found.patterns[layer].filter((/** @type {string} */ each) => each === name).length, 0) / (heads * read.length))})), names, "Share of maps of each kind"), barsKey(names));
    },
  };
}

/** @param {import("../numbers.js").Known} known */
const withUnit = ({name, unit}) => (unit === "share" ? name : `${name}, ${unit}`);

/** @param {number} value */
const amount = value => String(Number(value.toPrecision(3)));

/** @param {number} count */
const range = count => [...Array(count).keys()];
