// The part of the Layers view that draws probes from files: how well a label is read out of each layer.

import {SERIES_COUNT} from "../colours.js";
import {choice, h, replace} from "../dom.js";
import {percent} from "../format.js";
import {create as createCurve} from "../parts/curve.js";
import {findLink} from "../parts/units.js";
import {ProbeFileError, readProbe, restored, written} from "../parts/probe_files.js";

/** @typedef {import("../parts/probe_files.js").Probe} Probe */
/** @typedef {import("../parts/probe_files.js").Row} Row */

const MEASURES = /** @type {Record<string, any>} */ ({
  accuracy: {name: "accuracy", range: [0, 1], said: percent, tick: (/** @type {number} */ value) => `${Math.round(100 * value)}\u00a0%`, of: (/** @type {Row} */ row) => ({y: row.accuracy, low: row.low, high: row.high})},
  selectivity: {name: "accuracy minus control, points", range: null, said: points, of: (/** @type {Row} */ row) => ({y: row.control === null ? null : row.accuracy - row.control})},
  loss: {name: "loss, nats", range: null, said: (/** @type {number} */ value) => value.toFixed(2), of: (/** @type {Row} */ row) => ({y: row.loss})},
});

/** Makes the panel. @param {any} context */
export function createProbes(context) {
  const {state} = context;
  const input = h("input", {type: "file", multiple: true, accept: ".json,.jsonl,.csv,.tsv,.parquet", "aria-label": "Open results of bertscope probe", onchange: opened});
  const measure = choice("Probes show", [["accuracy", "Accuracy"], ["selectivity", "Selectivity"], ["loss", "Loss"]], "accuracy", value => state.set({layersmeasure: value}, {push: true}));
  const files = h("ul", {class: "probe-files"});
  const problem = h("p", {class: "status-line", role: "status"});
  const curve = createCurve();
  const table = h("div", {class: "table-scroll", tabindex: "0", role: "region", "aria-label": "Numbers of the probes"});
  const numbers = h("details", null, h("summary", null, "Numbers"), table);
  const hint = h("p", {class: "soft"}, "What ", h("code", null, "bertscope probe FILE --json > probe.json"), ", or ", h("code", null, "--output probe.csv"),
    ", wrote: how well a label of words is read out of each layer, with 95 % intervals. Several files are drawn over one another. ",
    findLink(state, {kind: "probe", layer: 0, number: 0}, "Words where a probe sees a class"));
  const element = h("section", {class: "panel wide", "aria-label": "Probes"}, h("header", null, h("h2", null, "Probes"), measure.element, input), hint, files, problem, curve.element, numbers);
  const probes = () => restored(state.get().layersprobes);

  async function opened() {
    const found = probes();
    const failures = [];
    for (const file of [...input.files]) {
      try {
        const probe = await readProbe(file);
        const same = found.findIndex(({name}) => name === probe.name);
        if (same >= 0) found[same] = probe;
        else if (found.length < SERIES_COUNT) found.push(probe);
        else throw new ProbeFileError(`${file.name}: ${SERIES_COUNT} files are open, and more can't be told apart; close one`);
      } catch (error) {
        if (!(error instanceof ProbeFileError)) throw error;
        failures.push(error.message);
      }
    }
    input.value = "";
    problem.dataset.kind = failures.length ? "error" : "note";
    problem.textContent = failures.join(". ");
    state.set({layersprobes: written(found)});
    context.announce(failures.length ? "" : `${found.length} results are drawn`);
  }

  /** @param {number} number */
  function close(number) {
    state.set({layersprobes: written(probes().filter((_, index) => index !== number))});
    input.focus();
  }

  return {
    element,
    toSvg: curve.toSvg,
    update() {
      const found = probes();
      const shown = MEASURES[state.get().layersmeasure ?? ""] ? /** @type {string} */ (state.get().layersmeasure) : "accuracy";
      measure.set(shown);
      measure.element.hidden = numbers.hidden = !found.length;
      hint.hidden = Boolean(found.length);
      replace(files, found.map(({name}, index) => h("li", null, h("button", {type: "button", class: "chip", onclick: () => close(index), "aria-label": `Close ${name}`}, `${name} ✕`))));
      const {name, range, said, tick, of} = MEASURES[shown];
      const series = found.flatMap((probe, number) => {
        const points = probe.rows.map(row => ({x: row.layer, ...of(row)})).filter(({y}) => y !== null);
        const control = shown === "accuracy" ? probe.rows.filter(row => row.control !== null).map(row => ({x: row.layer, y: Number(row.control)})) : [];
        return [{name: title(probe), number, points}, {name: `control task of ${probe.name}`, number, baseline: true, points: control}].filter(one => one.points.length);
      });
      curve.update({series, x: "layer (0: the embeddings)", y: name, range, said, tick, theme: context.theme(), label: `Curves of ${name} by layer: ${found.map(title).join("; ")}`});
      replace(table, found.length ? numbersOf(found) : null);
    },
  };
}

/** @param {Probe} probe */
function title({name, model, scored}) {
  return [name, model, scored && `scores of ${scored}`].filter(Boolean).join(", ");
}

/** @param {Probe[]} probes */
function numbersOf(probes) {
  const heads = ["File", "Layer", "Accuracy", "95 %", "Control task", "Selectivity", "Loss"];
  return h("table", null, h("thead", null, h("tr", null, heads.map((text, index) => h("th", {scope: "col", class: index && "number"}, text)))),
    h("tbody", null, probes.flatMap(({name, rows}) => rows.map(({layer, accuracy, low, high, control, loss}) => h("tr", null, h("th", {scope: "row"}, name),
      [layer, percent(accuracy), low === null || high === null ? "" : `${percent(low)} to ${percent(high)}`, control === null ? "" : percent(control),
        control === null ? "" : points(accuracy - control), loss === null ? "" : loss.toFixed(3)].map(text => h("td", {class: "number"}, text)))))));
}

/** A difference of shares in points: "+12.3". @param {number} value */
function points(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(100 * value).toFixed(1)}`;
}
