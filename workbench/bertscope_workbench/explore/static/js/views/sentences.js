// The Sentences view: what heads do over many sentences, in which of them they do it most, and what fills their masks; pairs
// of sentences, and sentences with linked words, are parts of their own.

import {choice, h, replace} from "../dom.js";
import {percent} from "../format.js";
import {STATISTICS, means} from "../numbers.js";
import {command, copyButton, linkButton, pythonLines} from "../parts/copying.js";
import {create as createGrid, largestOf} from "../parts/head_grid.js";
import {MAX_BYTES} from "../parts/lines_form.js";
import {create as createPictures} from "../parts/pictures.js";
import {draw as drawBars, key as barsKey} from "../parts/stacked_bars.js";
import {create as createStatus} from "../parts/status_line.js";
import {textOf} from "../parts/text_file.js";
import {findLink} from "../parts/units.js";
import {createPairs} from "./sentences_pairs.js";
import {createRelations} from "./sentences_relations.js";

const MAX_TEXTS = 1000;
const LISTED = 10;
const DRAW_MILLISECONDS = 150;

/** The sentences and what is known of them; they outlive a look at another view. @type {{texts: string[], events: any[], model: string, statistic: string}} */
let kept = {texts: [], events: [], model: "", statistic: ""};

/** @param {Element} container @param {any} context */
export function mount(container, context) {
  const {state, api} = context;
  const asker = api.latest();
  const status = createStatus();
  const box = h("textarea", {rows: "5", "aria-label": "Sentences, one a line", placeholder: "Sentences, one a line", spellcheck: "false"});
  box.value = kept.texts.join("\n");
  const file = h("input", {type: "file", accept: ".txt,text/plain", "aria-label": "A file of sentences", onchange: () => open(file.files[0])});
  const statistic = h("select", {onchange: () => state.set({sentences_show: statistic.value})}, Object.entries(STATISTICS).map(([name, each]) => h("option", {value: name, title: each.meaning}, withUnit(each))));
  const bar = h("progress", {hidden: true, "aria-label": "Sentences read"});
  const button = h("button", {type: "button", class: "primary", onclick: () => (running ? asker.stop() : read())}, "Read");
  const grid = createGrid((places, first) => { if (places.length === 1) state.set({at: places[0]}, {push: first}); }, () => {});
  const note = h("p", {class: "soft"});
  const bars = h("div", means("kinds"));
  const title = h("h2", null, "Where a head does it most");
  const elsewhere = h("span");
  const list = h("ol");
  const answers = h("div", means("probability"));
  const panels = h("div", {class: "sentences-panels", hidden: true},
    h("section", {class: "panel", "aria-label": "Heads"}, h("header", null, h("h2", null, "Heads over all sentences")), note, h("div", {class: "grid-scroll"}, grid.element)),
    h("section", {class: "panel", "aria-label": "Sentences of a head"}, h("header", null, title, elsewhere), list),
    h("section", {class: "panel", "aria-label": "Kinds of maps"}, h("header", null, h("h2", null, "Kinds of maps by layer")), bars),
    h("section", {class: "panel", "aria-label": "What fills the masks"}, h("header", null, h("h2", null, "What fills the masks")), answers));
  const pictures = createPictures(() => ({
    drawings: [{label: "Heads", svg: grid.toSvg}, {label: "Kinds of maps", svg: () => bars.querySelector("svg")}], view: panels,
    labels: {name: "bertscope-sentences", caption: `${short(kept.model)}, ${kept.events.length} sentences: ${kept.statistic && withUnit(STATISTICS[kept.statistic])}`, commands: ["attention --describe"]},
  }), status.error);
  const parts = /** @type {Record<string, any>} */ ({pairs: createPairs(context), relations: createRelations(context)});
  const kind = choice("Ask about", [["sentences", "Sentences"], ["pairs", "Pairs"], ["relations", "Relations"]], "sentences", value => state.set({sentences_kind: value === "sentences" ? null : value}, {push: true}));
  const place = h("div");
  const whole = h("div", null, h("section", {class: "panel sentences-form", "aria-label": "Sentences"}, h("h2", null, "Many sentences"), box,
    h("div", {class: "line"}, file, h("label", {class: "inline"}, "What heads do: ", statistic), button), bar, status.element), panels,
  h("footer", {class: "page-footer"}, h("span", {class: "soft status-line"}, "A link holds what is chosen, not the sentences."), linkButton(context),
    copyButton("Copy command", () => command("attention", null, "--describe", "--texts", "sentences.txt", ...(state.get().model ? ["--model", state.get().model] : [])), context.announce),
    copyButton("Copy Python", () => pythonLines(`client.describe_attention(open("sentences.txt").read().splitlines()).mean("${shown()}")`), context.announce), pictures.element));
  replace(container, h("div", {class: "sentences-kind"}, kind.element), place);
  let running = false;

  /** The chosen statistic. */
  function shown() {
    const name = state.get().sentences_show ?? "";
    return name in STATISTICS ? name : "first_special";
  }

  /** @param {File | undefined} chosen */
  async function open(chosen) {
    if (!chosen) return;
    const text = await textOf(chosen, MAX_BYTES, status);
    if (text === null) return;
    box.value = text;
    read();
  }

  async function read() {
    const texts = box.value.split("\n").map((/** @type {string} */ line) => line.trim()).filter(Boolean);
    if (!texts.length || texts.length > MAX_TEXTS) {
      status.note(texts.length ? `There are ${texts.length} sentences; the page reads at most ${MAX_TEXTS}.` : "Write or open sentences first, one a line.");
      return;
    }
    kept = {texts, events: [], model: context.model()?.name ?? "", statistic: shown()};
    running = true;
    button.textContent = "Stop";
    bar.hidden = false;
    bar.max = texts.length;
    bar.value = 0;
    let drawn = 0;
    let left = 0;
    status.waiting(`reading ${texts.length} sentences`);
    const said = () => `${kept.events.length} of ${texts.length} sentences are read${left ? `; ${left} were left out` : ""}.`;
    try {
      await asker.ask("sentences", {texts, model: state.get().model ?? "", statistic: kept.statistic}, {onEvent: (/** @type {any} */ event) => {
        if (event.left_out) {
          left++;
          status.waiting(`left out: ${texts[event.text]}: ${event.left_out}`);
        } else kept.events.push(event);
        bar.value = kept.events.length + left;
        if (performance.now() - drawn < DRAW_MILLISECONDS) return;
        drawn = performance.now();
        draw();
      }});
      status.note(said());
      context.announce(said());
    } catch (error) {
      if (error instanceof DOMException) status.note(`Stopped. ${said()}`);
      else status.error(error);
    } finally {
      running = false;
      bar.hidden = true;
      button.textContent = "Read";
      draw();
    }
  }

  function draw() {
    const now = state.get().sentences_kind ?? "sentences";
    kind.set(now in parts ? now : "sentences");
    const part = parts[now]?.element ?? whole;
    if (place.firstChild !== part) replace(place, part);
    parts[now]?.update();
    statistic.value = shown();
    const known = kept.events.filter(event => event.values);
    panels.hidden = !kept.events.length;
    if (!kept.events.length) return;
    const layers = kept.events[0].patterns.length;
    const heads = kept.events[0].patterns[0].length;
    const mean = known.length ? range(layers).map(layer => range(heads).map(head => known.reduce((sum, event) => sum + event.values[layer][head], 0) / known.length)) : null;
    const at = (/^(\d+)\.(\d+)$/.exec(state.get().at ?? "") ?? ["", "0", "0"]).slice(1).map(Number);
    const data = {layers, heads, show: /** @type {"moved"} */ ("moved"), pictures: null, moved: mean, worth: new Map(), changes: new Map(), at: at.join("."), theme: context.theme(), said: amount, described: context.described()};
    grid.update(data);
    Object.assign(note.dataset, {number: kept.statistic});
    note.title = means(kept.statistic).title;
    note.textContent = mean ? `Mean ${withUnit(STATISTICS[kept.statistic])} over ${known.length} sentences, up to ${amount(largestOf(data))}. Click a head for its sentences.` :
      "No sentence has this number: it needs pairs of texts.";
    drawList(known, at);
    drawPatterns(layers, heads);
    drawAnswers();
  }

  /** @param {any[]} known @param {number[]} at */
  function drawList(known, at) {
    replace(title, `Where layer ${at[0]}, head ${at[1]} does it most`);
    replace(elsewhere, findLink(state, {kind: "head", layer: at[0], number: at[1]}, "At which words?"));
    const ordered = known.filter(event => event.values[at[0]]?.[at[1]] !== undefined).sort((a, b) => b.values[at[0]][at[1]] - a.values[at[0]][at[1]]).slice(0, LISTED);
    replace(list, ordered.map(event => h("li", null, h("a", {href: state.link({view: "explore", text: kept.texts[event.text], at: at.join(".")}).slice(window.location.origin.length + 1)}, kept.texts[event.text]),
      " ", h("span", {class: "soft"}, amount(event.values[at[0]][at[1]])))));
  }

  /** @param {number} layers @param {number} heads */
  function drawPatterns(layers, heads) {
    const names = [...new Set(kept.events.flatMap(event => event.patterns.flat()))].filter(Boolean).sort();
    const rows = range(layers).map(layer => ({name: `layer ${layer}`,
      shares: names.map(name => kept.events.reduce((sum, event) => sum + event.patterns[layer].filter((/** @type {string} */ each) => each === name).length, 0) / (heads * kept.events.length))}));
    replace(bars, drawBars(rows, names, "Share of maps of each kind"), barsKey(names));
  }

  function drawAnswers() {
    const filled = kept.events.filter(event => event.answers.length).sort((a, b) => a.text - b.text);
    replace(answers, filled.length ? h("div", {class: "table-scroll", tabindex: "0", role: "region", "aria-label": "Answers"}, h("table", null, h("thead", null, h("tr", null, h("th", {scope: "col"}, "Sentence"), h("th", {scope: "col"}, "Likeliest words"))),
      h("tbody", null, filled.map(event => h("tr", null, h("td", null, kept.texts[event.text]),
        h("td", null, event.answers.map((/** @type {[string, number]} */ [word, share]) => `${word} ${percent(share)}`).join(", "))))))) : h("p", {class: "soft"}, "No sentence has a [MASK]."));
  }

  /** @param {Record<string, string>} _ @param {Set<string>} changed */
  function update(_, changed) {
    if (changed.has("sentences_show") && kept.texts.length) read();
    else draw();
  }

  const given = context.handed();
  if (given.length) {
    box.value = given.join("\n");
    read();
  } else draw();
  return {update, unmount: () => [asker, ...Object.values(parts)].forEach(each => each.stop())};
}

/** @param {import("../numbers.js").Known} known */
const withUnit = ({name, unit}) => (unit === "share" ? name : `${name}, ${unit}`);

/** @param {number} value */
const amount = value => String(Number(value.toPrecision(3)));

/** @param {number} count */
const range = count => [...Array(count).keys()];

/** @param {string} name */
const short = name => name.replace("models/", "");
