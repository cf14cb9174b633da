// The Layers view: what the masked-LM head reads in each layer's states, and curves of probes from files.

import {choice, h, replace} from "../dom.js";
import {EXAMPLES} from "../examples.js";
import {percent} from "../format.js";
import {means} from "../numbers.js";
import {create as createAsking, withoutHead} from "../parts/asking.js";
import {command, copyButton, linkButton, pythonLines, pythonQuoted} from "../parts/copying.js";
import {create as createPictures} from "../parts/pictures.js";
import {EMPTY, create as createSentence} from "../parts/sentence.js";
import {create as createGrid} from "../parts/word_grid.js";
import {createProbes} from "./layers_probes.js";

const PAUSE_MILLISECONDS = 300;

/** What colours a cell: its name, its number of a reading, how the number is written, whether less of it is a stronger colour. */
const COLOURS = /** @type {Record<string, any>} */ ({
  probability: {key: "probability", name: "probability of the word", of: (/** @type {any} */ reading) => reading.top[0][1], said: percent, most: () => 1},
  entropy: {key: "entropy_lens", name: "entropy, nats", of: (/** @type {any} */ reading) => reading.entropy, said: nats},
  divergence: {key: "kl", name: "KL to the last layer, nats", of: (/** @type {any} */ reading) => reading.divergence, said: nats},
  answer: {key: "probability", name: "probability of the answer", of: (/** @type {any} */ reading) => reading.answer?.probability, said: percent},
  rank: {key: "rank", name: "rank of the answer", of: (/** @type {any} */ reading) => reading.answer?.rank, said: (/** @type {number} */ rank) => `#${rank}`, log: true},
});

/** @param {Element} container @param {any} context */
export function mount(container, context) {
  const {state} = context;
  /** @type {any} */ let found = null;
  /** @type {[number, number] | null} */ let hover = null;
  let timer = 0;

  const sentence = createSentence((text, pause) => set({text, layersat: null, layersfirst: null}, !pause));
  const grid = createGrid((row, column) => { hover = null; set({layersat: `${found.layers.length - 1 - row}.${found.positions[column].index}`}, false); },
    (row, column) => { hover = [row, column]; drawTop(); });
  const colour = choice("Colour", [["probability", "Probability"], ["entropy", "Entropy"], ["divergence", "KL to last"], ["answer", "Answer"], ["rank", "Its rank"]], "probability",
    value => {
      set({layerscolour: value}, true);
      if (value === "answer" || value === "rank") answer.focus();
    });
  const normalisation = h("select", {"aria-label": "Final normalisation", onchange: () => set({layersnorm: normalisation.value || null}, true)},
    h("option", {value: ""}, "as the model needs it"), h("option", {value: "none"}, "without it"), h("option", {value: "final"}, "with it"));
  const answer = h("input", {"aria-label": "Answer to follow", placeholder: "a word to follow", autocomplete: "off", spellcheck: "false", size: "14", oninput: typed, onchange: follow});
  const earlier = h("button", {type: "button", onclick: () => turn(-1)}, "← Earlier tokens");
  const later = h("button", {type: "button", onclick: () => turn(1)}, "Later tokens →");
  const windowLine = h("p", {class: "layers-window", hidden: true}, earlier, h("span", {class: "soft"}), later);
  const legend = h("p", {class: "legend soft"});
  const top = h("section", {class: "panel", "aria-label": "Likeliest words of the cell"});
  const {status, ...asking} = createAsking(context, [grid.element, legend, top]);
  const lensPanel = h("section", {class: "panel", "aria-label": "Predictions by layer"}, h("header", null, h("h2", null, "What each layer would predict")),
    h("div", {class: "layers-options"}, h("span", {class: "soft"}, "Colour"), colour.element, h("label", {class: "inline"}, "Answer", answer), h("label", {class: "inline"}, "Final normalisation", normalisation)),
    windowLine, h("div", {class: "grid-scroll", role: "region", "aria-label": "Heat map of words"}, grid.element), legend);
  const probes = createProbes(context);
  const panels = h("div", {class: "layers-panels"}, lensPanel, top, probes.element);
  const pictures = createPictures(() => ({
    drawings: [{label: "Words by layer", svg: grid.toSvg}, {label: "Probes", svg: probes.toSvg, labels: {name: "bertscope-probes", caption: "Probes of each layer"}}], view: panels,
    labels: {name: `bertscope-layers-${modelName()}`, caption: `${modelName()}: ${now().text}`, commands: ["lens"]},
  }), status.error);
  replace(container, sentence.element, asking.reason, panels, h("footer", {class: "page-footer"}, status.element,
    linkButton(context), copyButton("Copy command", shellLine, context.announce),
    copyButton("Copy Python", pythonText, context.announce), pictures.element));

  /** @param {Record<string, string | null>} patch @param {boolean} push */
  function set(patch, push) { state.set(patch, {push}); }
  function now() { return {text: EXAMPLES[0], layerscolour: "probability", layersnorm: "", layersanswer: "", ...state.get()}; }
  function modelName() { return context.model()?.name.replace("models/", "") ?? ""; }
  function colouring() { return COLOURS[now().layerscolour] ?? COLOURS.probability; }

  function typed() {
    clearTimeout(timer);
    timer = window.setTimeout(follow, PAUSE_MILLISECONDS);
  }

  function follow() {
    clearTimeout(timer);
    timer = 0;
    const word = answer.value.trim();
    const shown = now().layerscolour;
    set({layersanswer: word || null, ...(word && shown !== "answer" && shown !== "rank" && {layerscolour: "answer"})}, false);
  }

  /** @param {number} way */
  function turn(way) {
    const [first, count] = [found.positions[0].index, found.positions.length];
    set({layersfirst: String(Math.max(0, way > 0 ? first + count : first - found.window)), layersat: null}, true);
  }

  function shellLine() {
    const {text, layersnorm, layersanswer, model} = now();
    return command("lens read", text, "--all-pieces", ...(layersanswer ? ["--candidates", layersanswer] : []), ...(layersnorm ? ["--normalisation", layersnorm] : []),
      ...(found?.truncated_tokens ? ["--truncate"] : []), ...(model ? ["--model", model] : []));
  }

  function pythonText() {
    const {text, layersnorm, layersanswer, model} = now();
    const part = found?.parts[0];
    const words = [part ? `bertscope.LensInput(${pythonQuoted(text)}, [(${part.join(", ")})])` : pythonQuoted(text), ...(part ? [] : ["all_pieces=True"]),
      ...(layersanswer ? [`candidates=[${pythonQuoted(layersanswer)}]`] : []), ...(layersnorm ? [`normalisation=${pythonQuoted(layersnorm)}`] : []),
      ...(found?.truncated_tokens ? ["truncate=True"] : []), ...(model ? [`model=${pythonQuoted(model)}`] : [])];
    return pythonLines(`client.read_layers(${words.join(", ")})`);
  }

  async function refresh() {
    const {text, layersnorm, layersanswer, layersfirst, model} = now();
    const body = {text, model: model ?? "", normalisation: layersnorm, answer: layersanswer, first: Math.max(0, Math.trunc(Number(layersfirst)) || 0)};
    const hindered = withoutHead(context) || (text.trim() ? "" : EMPTY);
    if (hindered) {
      asking.none(hindered);
      return;
    }
    const began = performance.now();
    const answer = await asking.ask("lens", body);
    if (!answer) return;
    found = answer.lens;
    hover = null;
    draw();
    const cut = found.truncated_tokens ? `; ${found.truncated_tokens} tokens of the text were cut off` : "";
    const read = found.normalisation === "final" ? "after the final normalisation" : "as they are";
    status.note(`${found.tokens} tokens${cut}; states before the last are read ${read}; in ${Math.round(performance.now() - began)} ms`);
    context.announce("the layers are read");
  }

  /** Row and column of the cell that the state names; the last layer of the first mask, or of the first token that is not special. */
  function place() {
    const named = /^(\d+)\.(\d+)$/.exec(now().layersat ?? "");
    const column = named ? found.positions.findIndex((/** @type {any} */ each) => each.index === Number(named[2])) : -1;
    if (named && column >= 0 && Number(named[1]) < found.layers.length) return [found.layers.length - 1 - Number(named[1]), column];
    return [0, Math.max(0, found.positions.findIndex((/** @type {any} */ each) => each.mask))];
  }

  function draw() {
    const {text, layerscolour, layersnorm, layersanswer} = now();
    sentence.set(text);
    colour.set(layerscolour);
    normalisation.value = layersnorm;
    if (!timer) answer.value = layersanswer;
    probes.update();
    if (!found) return;
    const {key, name, of, said, most, log} = colouring();
    const rows = [...found.layers].reverse();
    const numbers = found.positions.flatMap((/** @type {any} */ each) => each.layers.map(of)).filter(Number.isFinite);
    const largest = most ? most() : Math.max(...numbers, 1e-9);
    const share = (/** @type {number} */ value) => (log ? 1 - Math.log(value) / Math.log(Math.max(2, largest)) : value / largest);
    const cells = rows.map((layer, row) => found.positions.map((/** @type {any} */ position) => {
      const reading = position.layers[rows.length - 1 - row];
      const [number, [word]] = [of(reading), reading.top[0]];
      const known = Number.isFinite(number);
      return {word, number: known ? said(number) : "", share: known ? share(number) : 0,
        said: `layer ${layer}, ${position.token}: ${word} ${percent(reading.top[0][1])}${known && colouring() !== COLOURS.probability ? `, ${name} ${said(number)}` : ""}`};
    }));
    const ends = log ? [`#${largest}`, "#1"] : [said(0), said(largest)];
    grid.update({layers: rows, columns: found.positions, cells, at: /** @type {[number, number]} */ (place()), theme: context.theme(), scale: [name, ends[0], ends[1]]});
    replace(legend, numbers.length ? h("span", means(key), `${name}: ${ends[0]} `, h("span", {class: "scale", "aria-hidden": "true"}), ` ${ends[1]}`) : "Write an answer to follow: one word of the model's vocabulary.",
      h("span", {class: "legend-text"}, `layer 0 holds the embeddings, layer ${rows[0]} the last states`));
    drawWindow();
    drawTop();
  }

  function drawWindow() {
    windowLine.hidden = !found.parts.length;
    if (windowLine.hidden) return;
    const [first, last] = [found.positions[0].index, found.positions[found.positions.length - 1].index];
    windowLine.children[1].textContent = `tokens ${first} to ${last} of ${found.tokens}, without special tokens`;
    earlier.disabled = first <= 1;
    later.disabled = last >= found.tokens - 2;
  }

  function drawTop() {
    if (!found) return;
    const [row, column] = hover ?? place();
    const position = found.positions[column];
    const number = found.layers.length - 1 - row;
    const reading = position.layers[number];
    const most = reading.top[0][1];
    replace(top, h("header", null, h("h2", null, `Layer ${found.layers[number]}, `, h("span", {class: "answer"}, position.token))),
      h("ol", {class: "bars"}, reading.top.map((/** @type {[string, number]} */ [word, probability]) => h("li", null, h("span", {class: "bar-name", title: word}, word),
        h("span", {class: "bar-track", "aria-hidden": "true"}, h("span", {class: "bar", style: {width: `${(100 * probability) / most}%`}})), h("span", {class: "number", ...means("probability")}, percent(probability))))),
      h("p", {class: "soft"}, h("span", means("entropy_lens"), `entropy ${nats(reading.entropy)}`), ", ", h("span", means("kl"), `KL to the last layer ${nats(reading.divergence)} nats`)),
      reading.answer && h("p", {class: "layers-answer"}, h("strong", null, now().layersanswer), ` ${percent(reading.answer.probability)}, `, h("span", means("rank"), `rank ${reading.answer.rank}`)));
  }

  function update() {
    draw();
    refresh();
  }
  update();
  return {update, unmount: () => { clearTimeout(timer); asking.stop(); }};
}

/** @param {number} value */
function nats(value) { return value.toFixed(3); }
