// The Benchmark view: loaded models measured in turn: how much faster, how large, and how alike their answers are.

import {h, replace} from "../dom.js";
import {count, percent} from "../format.js";
import {means} from "../numbers.js";
import {command, copyButton, linkButton, pythonLines, pythonQuoted} from "../parts/copying.js";
import {create as createPictures} from "../parts/pictures.js";
import {draw as drawRatios, said} from "../parts/ratios.js";
import {create as createStatus} from "../parts/status_line.js";

const LENGTHS = ["8", "32", "128", "512", "32,128"];
/** The numbers of the table's columns, by their keys in `NUMBERS`. */
const MEANT = [null, null, "latency", "speedup", "throughput", "weights"];
const SECONDS = ["1", "5", "20"];

/** The newest report, which outlives a look at another view. @type {any} */
let report = null;

/** @param {Element} container @param {any} context */
export function mount(container, context) {
  const {state, api} = context;
  const asker = api.latest();
  const boxes = h("div", {class: "line", role: "group", "aria-label": "Models; the first is the baseline"});
  const length = select("Tokens", LENGTHS.map(each => [each, each.replace(",", " and ")]), value => set({bench_length: value}));
  const seconds = select("Seconds for each", SECONDS.map(each => [each, each]), value => set({bench_seconds: value}));
  const loaded = h("input", {type: "checkbox", onchange: () => set({bench_loaded: loaded.checked ? "1" : null})});
  const texts = h("textarea", {rows: "2", "aria-label": "Sentences with a mask, to compare answers", placeholder: "Sentences with [MASK], one a line, to compare answers (may be left empty)",
    onchange: () => set({bench_texts: texts.value.trim() || null})});
  const bar = h("progress", {hidden: true, max: 1, "aria-label": "Progress"});
  const button = h("button", {type: "button", class: "primary", onclick: () => (running ? asker.stop() : measure())}, "Measure");
  const status = createStatus();
  const results = h("section", {class: "panel benchmark-results", "aria-label": "Result", hidden: true});
  const pictures = createPictures(() => ({
    drawings: [...results.querySelectorAll("svg")].map((drawing, index) => ({label: `Speed ${index + 1}`, svg: () => drawing})), view: results,
    labels: {name: "bertscope-benchmark", caption: `Speed against ${short(report?.baseline ?? "")}, ${report?.machine.cpu ?? ""}`, commands: ["benchmark"]},
  }), status.error);
  replace(container, h("section", {class: "panel benchmark-form", "aria-label": "What to measure"}, h("h2", null, "How fast, how large, and at what price"), boxes,
    h("div", {class: "line"}, length.element, seconds.element, h("label", {class: "inline"}, loaded, "each as it is loaded, not all by one library"), button), texts, bar, status.element),
  results, h("footer", {class: "page-footer"}, h("span", {class: "soft status-line"}), linkButton(context),
    copyButton("Copy command", shellLine, context.announce), copyButton("Copy Python", pythonText, context.announce), pictures.element));
  let running = false;

  /** @param {Record<string, string | null>} patch */
  function set(patch) { state.set(patch, {push: true}); }
  function values() { return {bench_length: "32", bench_seconds: "1", ...state.get()}; }
  /** The models that are ticked, in the order of the list. */
  function chosen() {
    const names = context.models().map((/** @type {any} */ model) => short(model.name));
    const wanted = (values().bench_models ?? names.slice(0, 2).join(",")).split(",");
    return names.filter((/** @type {string} */ name) => wanted.includes(name));
  }
  function lengths() { return values().bench_length.split(",").map(Number).filter((/** @type {number} */ each) => each > 0); }
  function sentences() { return (values().bench_texts ?? "").split("\n").map((/** @type {string} */ line) => line.trim()).filter(Boolean); }

  function shellLine() {
    return command("benchmark", null, ...chosen().flatMap((/** @type {string} */ name) => ["--model", name]), ...lengths().flatMap((/** @type {number} */ each) => ["--length", String(each)]),
      "--min-seconds", values().bench_seconds, ...(values().bench_loaded ? ["--as-loaded"] : []));
  }

  function pythonText() {
    const more = [`lengths=[${lengths().join(", ")}]`, `min_seconds=${values().bench_seconds}`, ...(values().bench_loaded ? ["as_loaded=True"] : []),
      ...(sentences().length ? [`agreement_texts=[${sentences().map(pythonQuoted).join(", ")}]`] : [])];
    return pythonLines(`client.benchmark_models([${chosen().map(pythonQuoted).join(", ")}], ${more.join(", ")})`);
  }

  async function measure() {
    running = true;
    button.textContent = "Stop";
    bar.hidden = false;
    bar.removeAttribute("value");
    status.waiting("begins");
    const body = {models: chosen(), lengths: lengths(), min_seconds: Number(values().bench_seconds), as_loaded: Boolean(values().bench_loaded), agreement_texts: sentences()};
    try {
      const last = await asker.ask("benchmark", body, {retry: false, onEvent: (/** @type {any} */ event) => {
        if (!event.progress) return;
        bar.value = event.progress.done;
        status.waiting(`${event.progress.stage}, ${Math.round(100 * event.progress.done)} %`);
      }});
      report = last.report;
      status.note(`Measured in ${report.seconds.toFixed(1)} s.`);
      context.announce("The benchmark is done");
      draw();
    } catch (error) {
      if (error instanceof DOMException) status.note("Stopped.");
      else status.error(error);
    } finally {
      running = false;
      button.textContent = "Measure";
      bar.hidden = true;
    }
  }

  function draw() {
    const ticked = chosen();
    replace(boxes, context.models().map((/** @type {any} */ model) => {
      const name = short(model.name);
      const box = h("input", {type: "checkbox", checked: ticked.includes(name), onchange: () => {
        const next = box.checked ? [...ticked, name] : ticked.filter((/** @type {string} */ each) => each !== name);
        set({bench_models: next.join(",") || "none"});
      }});
      return h("label", {class: "inline"}, box, name, h("span", {class: "soft"}, `${model.runtime} ${model.precision}`));
    }));
    length.set(values().bench_length);
    seconds.set(values().bench_seconds);
    loaded.checked = values().bench_loaded === "1";
    if (document.activeElement !== texts) texts.value = values().bench_texts ?? "";
    button.disabled = !running && ticked.length < 1;
    results.hidden = !report;
    if (report) replace(results, h("header", null, h("h2", null, "Result")), ...resultOf(report));
  }

  draw();
  return {update: draw, unmount: () => asker.stop()};
}

/** A report's notes, tables and drawings. @param {any} found A `BenchmarkReport`. */
export function resultOf(found) {
  const {machine} = found;
  return [
    h("p", {class: "soft"}, `${machine.cpu}, ${machine.cores} cores, ${machine.threads} threads${machine.gpus.length ? `, ${machine.gpus.join(", ")}` : ""}. Intervals cover the noise of the measurement only.`),
    found.warnings.length ? h("ul", null, found.warnings.map((/** @type {string} */ text) => h("li", {class: "caveat"}, text))) : null,
    ...found.models[0].speeds.flatMap((/** @type {any} */ speed, /** @type {number} */ index) => [h("h3", null, `${speed.length} tokens`), tableOf(found, index), drawingOf(found, index)]),
  ];
}

/** @param {any} found @param {number} index Of the length. */
function tableOf(found, index) {
  const agreement = found.models.some((/** @type {any} */ model) => model.agreement);
  const vectors = found.models.find((/** @type {any} */ model) => model.vectors)?.vectors;
  const meant = [...MEANT, agreement ? "agreement" : "neighbours"];
  const heads = ["Model", "Runs on", "Latency, median", "Times as fast", "Throughput", "Weights", ...(agreement ? ["Same first answer"] : []), ...(vectors ? [`Same of ${vectors.k} nearest`] : [])];
  return h("div", {class: "table-scroll", tabindex: "0", role: "region", "aria-label": "Speeds"}, h("table", null,
    h("thead", null, h("tr", null, heads.map((text, column) => h("th", {scope: "col", class: column > 1 && "number", ...(meant[column] && means(/** @type {string} */ (meant[column])))}, text)))),
    h("tbody", null, found.models.map((/** @type {any} */ model) => {
      const speed = model.speeds[index];
      const ratio = speed.latency_speedup;
      const {provenance} = model;
      return h("tr", null, h("th", {scope: "row"}, short(provenance.model)), h("td", null, `${provenance.runtime} ${provenance.device}, ${provenance.precision}`),
        h("td", {class: "number"}, `${(1000 * speed.p50_seconds).toFixed(2)} ms`),
        h("td", {class: "number"}, ratio ? said(ratio) : "baseline", ratio?.caveat && h("div", {class: "caveat"}, ratio.caveat)),
        h("td", {class: "number"}, `${Math.round(speed.throughput)} texts/s`), h("td", {class: "number"}, count(model.weight_bytes, "B")),
        agreement && h("td", {class: "number"}, model.agreement ? percent(model.agreement.top_1) : ""),
        vectors && h("td", {class: "number"}, model.vectors ? percent(model.vectors.neighbours) : ""));
    }))));
}

/** @param {any} found @param {number} index */
function drawingOf(found, index) {
  const rows = found.models.filter((/** @type {any} */ model) => model.speeds[index].latency_speedup)
    .map((/** @type {any} */ model) => ({name: short(model.provenance.model), ratio: model.speeds[index].latency_speedup}));
  return rows.length ? drawRatios(rows, `times as fast as ${short(found.baseline)}, one text at a time, ${found.models[0].speeds[index].length} tokens`) : null;
}

/** @param {string} label @param {string[][]} options @param {(value: string) => void} changed */
function select(label, options, changed) {
  const element = h("select", {onchange: () => changed(element.value)}, options.map(([value, text]) => h("option", {value}, text)));
  return {element: h("label", {class: "inline"}, label, element), /** @param {string} value */ set: value => { element.value = value; }};
}

/** @param {string} name */
const short = name => name.replace("models/", "");
