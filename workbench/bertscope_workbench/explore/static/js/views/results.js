// The Results view: a file that the command wrote. Benchmarks, effects of heads and curves are drawn; every file but a benchmark is a table, too.

import {base64} from "../api.js";
import {choice, h, replace} from "../dom.js";
import {claimsOf} from "../parts/claims.js";
import {create as createTable, shown, typeOf} from "../parts/data_table.js";
import {create as createGrid, largestOf} from "../parts/head_grid.js";
import {create as createPictures} from "../parts/pictures.js";
import {draw as drawRatios} from "../parts/ratios.js";
import {create as createCurves} from "../parts/result_curves.js";
import {means} from "../numbers.js";
import {create as createStatus} from "../parts/status_line.js";
import {findLink} from "../parts/units.js";
import {resultOf} from "./benchmark.js";

const MAX_BYTES = 16_000_000;
const MOST_UNITS = 20;
const BETTER = new Set(["accuracy", "reciprocal_rank", "token_accuracy", "entity_f1"]);
const ENDS = ".json,.html,.jsonl,.csv,.tsv,.parquet";

/** The file that is shown, which outlives a look at another view. @type {{name: string, events: any} | null} */
let opened = null;
/** How its rows are sorted and filtered. */
let order = {sort: "", filters: {}};

/** @param {Element} container @param {any} context */
export function mount(container, context) {
  const {state, api} = context;
  const asker = api.latest();
  const status = createStatus();
  const file = h("input", {type: "file", accept: ENDS, "aria-label": "A file that bertscope wrote", onchange: () => { if (file.files[0]) read(file.files[0]); }});
  const results = h("section", {class: "panel results-panel", "aria-label": "Result", hidden: true});
  const grid = createGrid((places, first) => { if (places.length === 1) state.set({at: places[0]}, {push: first}); }, () => {});
  const curves = createCurves(context);
  const table = createTable("Rows", chosen => {
    Object.assign(order, chosen);
    tableOf(opened?.events.table);
  });
  const pictures = createPictures(() => ({
    drawings: [...(opened?.events.effects ? [{label: "Heads", svg: grid.toSvg}] : []), ...(opened?.events.curves ? [{label: "Curves", svg: curves.toSvg}] : []),
      ...[...results.querySelectorAll("svg.ratio-drawing")].map((drawing, index) => ({label: `Drawing ${index + 1}`, svg: () => drawing}))],
    view: results, labels: {name: `bertscope-${opened?.name ?? "result"}`, caption: opened?.name ?? ""},
  }), status.error);
  const panel = h("section", {class: "panel", "aria-label": "File"}, h("header", null, h("h2", null, "Open a result")),
    h("div", {class: "file-line"}, file, h("span", {class: "soft"}, "what a command wrote: .json, a benchmark's .html, .jsonl, .csv, .tsv or .parquet, at most 16 MB")), status.element);
  replace(container, panel, results, h("footer", {class: "page-footer"}, h("span", {class: "status-line"}), pictures.element));

  /** @param {File} chosen */
  async function read(chosen) {
    if (chosen.size > MAX_BYTES) {
      status.note(`${chosen.name} has ${Math.ceil(chosen.size / 1e6)} MB; the page reads files of at most ${MAX_BYTES / 1e6} MB.`);
      return;
    }
    status.waiting(`reading ${chosen.name}`);
    try {
      const events = {};
      await asker.ask("results", {name: chosen.name, data: base64(new Uint8Array(await chosen.arrayBuffer()))}, {retry: false, onEvent: (/** @type {any} */ event) => Object.assign(events, event)});
      opened = {name: chosen.name, events};
      order = {sort: "", filters: {}};
      status.clear();
      context.announce(`${chosen.name} is open`);
      draw();
    } catch (error) {
      status.error(error);
    }
  }

  function draw() {
    results.hidden = !opened;
    if (!opened) return;
    const {report, claims, effects, curves: found, speedups, table} = opened.events;
    if (found) curves.update(found);
    replace(results, h("header", null, h("h2", null, opened.name)), report && resultOf(report), claims && claimsOf(claims), effects && effectsOf(effects), found && curves.element, speedups && speedupsOf(speedups), table && tableOf(table));
  }

  /** @param {{columns: string[], rows: any[][], total: number}} found */
  function tableOf({columns, rows, total}) {
    table.update({rows, ...order, columns: columns.map((name, index) => ({key: String(index), title: name.replaceAll("_", " "), type: typeOf(rows.map(row => row[index])), value: row => row[index], cell: linked(columns, index)}))});
    return [rows.length < total && h("p", {class: "soft"}, `The first ${rows.length} of ${total} rows`), table.element];
  }

  /** The cells of a column that names units of the model: links to where those are largest. @param {string[]} columns @param {number} index */
  function linked(columns, index) {
    const [layer, site] = ["layer", "site"].map(name => columns.indexOf(name));
    if (["head", "neuron"].includes(columns[index]) && layer >= 0) {
      return (/** @type {any[]} */ row) => (Number.isInteger(row[index]) && Number.isInteger(row[layer]) ? findLink(state, {kind: columns[index], layer: row[layer], number: row[index]}, String(row[index])) : shown(row[index]));
    }
    if (columns[index] !== "units" || site < 0) return undefined;
    return (/** @type {any[]} */ row) => [...String(row[index]).matchAll(/\[(\d+), (\d+), (\d+)\]/g)].slice(0, MOST_UNITS).map(([, of, , number]) =>
      [findLink(state, {kind: String(row[site]).replace(/s$/, ""), layer: Number(of), number: Number(number)}, `${of}:${number}`), " "]);
  }

  /** @param {Record<string, any[]>} effects */
  function effectsOf(effects) {
    const metrics = Object.keys(effects);
    const metric = metrics.includes(state.get().metric) ? state.get().metric : metrics[metrics.length - 1];
    const sign = BETTER.has(metric) ? -1 : 1; // A positive number is harm: the head was of use.
    const worth = new Map(effects[metric].map(each => [`${each.layer}.${each.head}`, {difference: sign * each.difference,
      low: each.low === null ? null : Math.min(sign * each.low, sign * each.high), high: each.high === null ? null : Math.max(sign * each.low, sign * each.high)}]));
    const data = {layers: 1 + Math.max(...effects[metric].map(each => each.layer)), heads: 1 + Math.max(...effects[metric].map(each => each.head)), show: /** @type {"worth"} */ ("worth"),
      pictures: null, moved: null, worth, changes: new Map(), at: state.get().at ?? "", theme: context.theme(), said: (/** @type {number} */ value) => `${metric} ${sign * value < 0 ? "−" : "+"}${Math.abs(value).toFixed(4)}`};
    grid.update(data);
    const at = /^(\d+)\.(\d+)$/.exec(state.get().at ?? "");
    const picker = choice("Metric", metrics.map(each => [each, each.replaceAll("_", " ")]), metric, value => state.set({metric: value}));
    const caption = metric === "importance" ? `Gradient importance of each head, at most ${largestOf(data).toFixed(3)}. Dark: the loss depends on it.`
      : `Change of ${metric.replaceAll("_", " ")} when a head is changed, at most ${largestOf(data).toFixed(3)}. Orange: worse without it; blue: better; faint: its interval holds zero.`;
    return [metrics.length > 1 && picker.element, h("p", {class: "soft", ...means(metric === "importance" ? "importance" : "effect")}, caption),
      h("div", {class: "grid-scroll"}, grid.element), at && h("p", null, `Layer ${at[1]}, head ${at[2]}: `, findLink(state, {kind: "head", layer: Number(at[1]), number: Number(at[2])}))];
  }

  draw();
  return {update: draw, unmount: () => asker.stop()};
}

/** A drawing for each length. @param {{system: string, length: number | null, ratio: any}[]} speedups */
function speedupsOf(speedups) {
  return [...new Set(speedups.map(({length}) => length))].map(length => drawRatios(speedups.filter(each => each.length === length).map(({system, ratio}) => ({name: system, ratio})),
    `times as fast as the original, one text at a time${length ? `, ${length} tokens` : ""}`));
}
