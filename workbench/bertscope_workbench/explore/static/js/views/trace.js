// The Trace view: two sentences that differ in a word, and which places carry the answer of the first into the second.

import {choice, h, replace} from "../dom.js";
import {percent} from "../format.js";
import {means} from "../numbers.js";
import {LABELS} from "../fields.js";
import {create as createAsking, withoutHead} from "../parts/asking.js";
import {command, copyButton, linkButton, pythonLines, pythonQuoted} from "../parts/copying.js";
import {create as createPictures} from "../parts/pictures.js";
import {create as createGrid} from "../parts/word_grid.js";

const FIRST = {text: "The keys to the old cabinet [MASK] on the table.", traceother: "The key to the old cabinet [MASK] on the table.", traceanswer: "are", traceagainst: "is", tracesite: "state", tracedirection: "restore"};
const SITES = [["state", "States"], ["heads", "Heads"], ["attention", "Attention"], ["neurons", "Neurons"], ["feed_forward", "Feed-forward"]];
const PAUSE_MILLISECONDS = 500;
const DRAGGED = "application/x-bertscope-place";

/** @param {Element} container @param {any} context */
export function mount(container, context) {
  const {state} = context;
  /** @type {any} */ let found = null; // {start, layers: Map of layer -> [[recovery, difference] by position]}
  let [timer, complete] = [0, ""];

  const fields = Object.fromEntries([["text", "clean"], ["traceother", "corrupted"], ["traceanswer", "answer"], ["traceagainst", "pairs.target.mask.other"]].map(([key, field]) =>
    [key, {label: LABELS[field], input: h("input", {autocomplete: "off", spellcheck: "false", "data-key": key, oninput: typed, onchange: follow})}]));
  const grid = createGrid((row, column) => set({traceat: `${rows()[row]}.${column}`}, false), () => {}, "Shares of the answer", DRAGGED);
  const site = h("select", {onchange: () => set({tracesite: site.value, traceat: null}, true)}, SITES.map(([value, label]) => h("option", {value}, label)));
  const direction = choice("Direction", [["restore", "Restore"], ["break", "Break"]], FIRST.tracedirection, value => set({tracedirection: value}, true));
  const pair = h("div", {class: "grid-scroll", role: "region", "aria-label": "Both sentences, token by token", tabindex: "0"});
  const legend = h("p", {class: "legend soft"});
  const into = h("input", {autocomplete: "off", spellcheck: "false", onchange: () => set({traceinto: into.value.trim() || null}, false)});
  const says = h("div");
  const {status, ...asking} = createAsking(context, [pair, grid.element, legend, says]);
  const ofCell = createAsking(context, [says]);
  const cell = h("section", {class: "panel", "aria-label": "The model with one place patched", ondragover: carried, ondrop: dropped}, ofCell.reason, says,
    h("label", {class: "trace-into"}, h("span", null, "Put it into another sentence, or drop a cell here"), into));
  const gridPanel = h("section", {class: "panel", "aria-label": "Places that carry the answer"}, h("header", null, h("h2", null, "Which place carries the answer?")),
    h("div", {class: "layers-options"}, h("label", {class: "inline"}, "Change", site), direction.element), pair,
    h("div", {class: "grid-scroll trace-grid", role: "region", "aria-label": "Heat map of places"}, grid.element), legend);
  const panels = h("div", {class: "layers-panels"}, gridPanel, cell);
  const pictures = createPictures(() => ({
    drawings: [{label: "Places by layer", svg: grid.toSvg}], view: panels,
    labels: {name: `bertscope-trace-${modelName()}`, caption: `${modelName()}: ${now().text} / ${now().traceother}`, commands: ["trace"]},
  }), status.error);
  replace(container, h("div", {class: "trace-texts"}, Object.values(fields).map(({label, input}) => h("label", null, h("span", null, label), input))), asking.reason, panels,
    h("footer", {class: "page-footer"}, status.element, linkButton(context), copyButton("Copy command", shellLine, context.announce),
      copyButton("Copy Python", pythonText, context.announce), pictures.element));

  /** @param {Record<string, string | null>} patch @param {boolean} push */
  function set(patch, push) { state.set(patch, {push}); }
  /** The first sentence is one of this view unless the state's text was traced before: another view's has no partner. */
  function now() {
    const given = state.get();
    return "traceother" in given ? {...FIRST, traceagainst: "", ...given} : {...FIRST, ...given, text: FIRST.text, traceother: FIRST.traceother};
  }
  function modelName() { return context.model()?.name.replace("models/", "") ?? ""; }
  /** Layers in the order of the rows, from the top. */
  function rows() { return [...found.layers.keys()].sort((a, b) => b - a); }

  function typed() {
    clearTimeout(timer);
    timer = window.setTimeout(follow, PAUSE_MILLISECONDS);
  }

  function follow() {
    clearTimeout(timer);
    timer = 0;
    set({...Object.fromEntries(Object.entries(fields).map(([key, {input}]) => [key, input.value.trim()])), traceat: null}, false);
  }

  /** Layer and position of the chosen cell: the strongest one unless the state names one. */
  function place() {
    const named = /^(\d+)\.(\d+)$/.exec(now().traceat ?? "");
    if (named && found.layers.get(Number(named[1]))?.[Number(named[2])]) return [Number(named[1]), Number(named[2])];
    let best = [rows()[0], 0];
    for (const [layer, values] of found.layers) values.forEach((/** @type {any} */ value, /** @type {number} */ position) => {
      if (value && Math.abs(value[0] ?? 0) > Math.abs(found.layers.get(best[0])[best[1]]?.[0] ?? 0) + 0.005) best = [layer, position];
    });
    return best;
  }

  function words() {
    const {tracesite, model} = now();
    return {site: tracesite.replace("_", "-"), ...(model ? {model} : {})};
  }

  function shellLine() {
    const {text, traceother, traceanswer, traceagainst, tracedirection, model} = now();
    return command("trace", text, traceother, "--answers", traceagainst ? `${traceanswer},${traceagainst}` : traceanswer, "--site", words().site,
      "--direction", tracedirection, ...(model ? ["--model", model] : []));
  }

  function pythonText() {
    const {text, traceother, traceanswer, traceagainst, tracesite, tracedirection, model} = now();
    const target = `bertscope.Answer(${[traceanswer, ...(traceagainst ? [traceagainst] : [])].map(pythonQuoted).join(", ")})`;
    return pythonLines(`client.trace(${[pythonQuoted(text), pythonQuoted(traceother), target, `sites=${pythonQuoted(tracesite)}`,
      `direction=${pythonQuoted(tracedirection)}`, ...(model ? [`model=${pythonQuoted(model)}`] : [])].join(", ")})`);
  }

  async function refresh() {
    const {text, traceother, traceanswer, traceagainst, tracesite, tracedirection, model} = now();
    const body = {text, other: traceother, answer: traceanswer, against: traceagainst, site: tracesite, direction: tracedirection, model: model ?? ""};
    const hindered = withoutHead(context) || (text && traceother && traceanswer ? "" : "Write both sentences, each with [MASK], and the answer.");
    if (hindered) {
      ofCell.stop();
      asking.none(hindered);
      return;
    }
    if (complete !== JSON.stringify(body)) ofCell.refuse("");
    const began = performance.now();
    /** @param {any} event */
    function onEvent(event) {
      if (event.start) found = {start: event.start, layers: new Map()};
      for (const [layer, position, ...numbers] of event.effects ?? []) {
        if (!found.layers.has(layer)) found.layers.set(layer, Array(found.start.tokens.length).fill(null));
        found.layers.get(layer)[position] = numbers;
      }
      if (found.layers.size) draw();
    }
    if (await asking.ask("trace", body, onEvent)) {
      complete = JSON.stringify(body);
      status.note(`${found.start.total} places in ${Math.round(performance.now() - began)} ms`);
      context.announce("the trace is complete");
    }
    if (complete === JSON.stringify(body)) refreshCell();
  }

  /** @param {DragEvent} event */
  function carried(event) {
    if (event.dataTransfer?.types.includes(DRAGGED)) event.preventDefault();
  }

  /** @param {DragEvent} event */
  function dropped(event) {
    const [row, column] = (event.dataTransfer?.getData(DRAGGED) || "x").split(".").map(Number);
    if (!found?.layers.get(rows()[row])?.[column]) return;
    event.preventDefault();
    set({traceat: `${rows()[row]}.${column}`, traceinto: into.value.trim() || null}, false);
  }

  async function refreshCell() {
    const {text, traceother, tracesite, tracedirection, traceinto, model} = now();
    const [layer, position] = place();
    const [usual, source] = tracedirection === "break" ? [text, traceother] : [traceother, text];
    const body = {text: traceinto || usual, source, site: tracesite, layer, position, model: model ?? ""};
    const answer = await ofCell.ask("patched", body);
    if (answer) drawCell(body, answer.patched);
  }

  /** @param {any} body @param {[string, number, number | null][]} patched */
  function drawCell(body, patched) {
    const most = Math.max(...patched.map(([, probability, before]) => Math.max(probability, before ?? 0)));
    const option = `${words().site}:${body.layer}@${body.position}=${body.source}`;
    const call = `client.fill_mask(${[pythonQuoted(body.text), `interventions=bertscope.patch(${body.layer}, ${pythonQuoted(body.source)}, site=${pythonQuoted(body.site)}, positions=[${body.position}])`,
      ...(body.model ? [`model=${pythonQuoted(body.model)}`] : [])].join(", ")})`;
    into.placeholder = body.text;
    replace(says, h("header", null, h("h2", null, `Layer ${body.layer}, `, h("span", {class: "answer"}, found.start.tokens[body.position]))),
      h("p", {class: "soft"}, `With this place of "${body.source}", the model says of "${body.text}":`),
      h("ol", {class: "bars"}, patched.map(([word, probability, before]) => h("li", null, h("span", {class: "bar-name", title: word}, word),
        h("span", {class: "bar-track", "aria-hidden": "true"}, h("span", {class: "bar", style: {width: `${(100 * probability) / most}%`}}),
          before !== null && h("span", {class: "tick", style: {left: `${(100 * before) / most}%`}})),
        h("span", {class: "number", ...means("probability")}, percent(probability), h("span", {class: "visually-hidden"}, before === null ? "" : `, before ${percent(before)}`))))),
      h("p", null, copyButton("Copy its command", () => command("fill", body.text, "--patch", option, ...(body.model ? ["--model", body.model] : [])), context.announce), " ",
        copyButton("Copy its Python", () => pythonLines(call), context.announce)));
  }

  function draw() {
    const shown = now();
    if (!timer) for (const [key, {input}] of Object.entries(fields)) if (input.value.trim() !== shown[key]) input.value = shown[key];
    if (document.activeElement !== into) into.value = shown.traceinto ?? "";
    site.value = shown.tracesite;
    direction.set(shown.tracedirection);
    if (!found?.layers.size) return;
    const {tokens, other, differ, clean, corrupted} = found.start;
    const marked = (/** @type {string[]} */ row) => row.map((token, index) => h("td", {class: differ[index] && "differs"}, token));
    replace(pair, h("table", {class: "trace-pair"}, h("tbody", null, h("tr", null, h("th", {scope: "row"}, "clean"), marked(tokens)), h("tr", null, h("th", {scope: "row"}, "corrupted"), marked(other)))));
    const largest = Math.max(1, ...[...found.layers.values()].flat().map(value => Math.abs(value?.[0] ?? 0)));
    const cells = rows().map(layer => tokens.map((/** @type {string} */ token, /** @type {number} */ position) => {
      const value = found.layers.get(layer)[position];
      if (!value) return {word: "", number: "", share: 0, said: `layer ${layer}, ${token}: not measured yet`};
      const [recovery, difference] = value;
      const number = recovery === null ? "no share" : (Math.round(100 * recovery) / 100 + 0).toFixed(2);
      return {word: Math.abs(recovery ?? 0) < 0.005 ? "" : number, number: "", share: (recovery ?? 0) / largest, said: `layer ${layer}, ${token}: ${number} of the answer, difference ${difference.toFixed(2)}`};
    }));
    const [layer, position] = place();
    const answer = shown.traceagainst ? `"${shown.traceanswer}" over "${shown.traceagainst}"` : `"${shown.traceanswer}"`;
    const columns = tokens.map((/** @type {string} */ token, /** @type {number} */ index) => ({token: differ[index] ? `${token} / ${other[index]}` : token, index, mask: differ[index]}));
    grid.update({layers: rows(), columns, cells, at: [rows().indexOf(layer), position], theme: context.theme(), scale: [`share of the answer ${answer}`, "0", largest.toFixed(1)], across: "token, clean / corrupted"});
    replace(legend, h("span", means("recovery"), "rows are layers, columns tokens (clean / corrupted); a number is the share of the other run's answer: 0 ", h("span", {class: "scale", "aria-hidden": "true"}), ` ${largest.toFixed(1)}`),
      h("span", {class: "legend-text", ...means("logit")}, `logit of ${answer}: clean ${clean.toFixed(2)}, corrupted ${corrupted.toFixed(2)}`));
  }

  function update() {
    draw();
    refresh();
  }
  update();
  return {update, unmount: () => { clearTimeout(timer); asking.stop(); ofCell.stop(); }};
}
