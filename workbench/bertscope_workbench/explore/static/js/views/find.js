// The Find view: the words of a corpus at which a head, a neuron or another unit is largest, and some from each tenth of its values.

import {choice, h, replace} from "../dom.js";
import {percent} from "../format.js";
import {command, copyButton, linkButton, pythonLines, pythonQuoted} from "../parts/copying.js";
import {amount, histogram, words} from "../parts/contexts.js";
import {create as createTable, filtersOf} from "../parts/data_table.js";
import {create as createPictures} from "../parts/pictures.js";
import {create as createStatus, greyWhile} from "../parts/status_line.js";
import {NUMBERS, means} from "../numbers.js";
import * as units from "../parts/units.js";
import {pythonUnit, shellUnit} from "./find_copies.js";
import {createCorpus} from "./find_corpus.js";
import {createUnit} from "./find_unit.js";

/** @typedef {import("../parts/contexts.js").Place} Place */

const VALUES = /** @type {Record<string, string>} */ ({head: "head_value", neuron: "activation", state: "cosine", probe: "class_score", code: "activation"});

/** What is known of all heads, and of the neurons or codes of a layer, over a corpus; it outlives a look at another view. @type {Record<string, {of: string, found: any}>} */
const known = {find_means: {of: "", found: null}, find_outstanding: {of: "", found: null}};

/** What the words at the best places have in common. @param {{of: string, tag: string, texts: number, share: number, low: number, high: number, by_chance: number, p: number}} found */
const tagSaid = ({of, tag, texts, share, low, high, by_chance: chance, p}) => [of === "partner" ? "Attended to: " : "Words: ", h("strong", null, `${percent(share)} ${tag}`),
  ` in ${texts} sentences (95 %: ${(100 * low).toFixed(1)} to ${percent(high)}), ${percent(chance)} by chance${p < 0.05 ? "" : ", which may be chance"}. `];

/** @param {Element} container @param {any} context */
export function mount(container, context) {
  const {state, api} = context;
  const [asker, overviewAsker] = [api.latest(), api.latest()];
  const status = createStatus();
  /** The newest answer. @type {any} */
  let found = null;
  let asked = "";
  const corpus = createCorpus(context, () => { asked = ""; update(state.get(), new Set()); });
  const unit = createUnit(context, chosen, () => update(state.get(), new Set()));
  const title = h("h2");
  const does = h("p", {class: "soft"});
  const sums = h("p", {class: "find-sums"});
  const spread = h("div");
  const tagged = h("p", {class: "find-tags", ...means("tagged")});
  const show = choice("Shown", [["best", "Best places"], ["tenths", "From each tenth"]], "best", value => state.set({find_show: value === "best" ? null : value}, {push: true}));
  const only = h("input", {type: "search", "aria-label": "Only at this word", placeholder: "only at this word", spellcheck: "false", onchange: () => state.set({find_only: only.value.trim() || null}, {push: true})});
  const table = createTable("Contexts", pick => state.set({...(pick.sort !== undefined && {find_sort: pick.sort}), ...(pick.filters && {find_filters: Object.keys(pick.filters).length ? JSON.stringify(pick.filters) : null})}, {push: pick.sort !== undefined}));
  const bar = h("progress", {hidden: true, "aria-label": "Sentences read"});
  const stop = h("button", {type: "button", hidden: true, onclick: () => asker.stop()}, "Stop");
  const contexts = h("section", {class: "panel", "aria-label": "Contexts of the unit"}, h("header", null, title, show.element, only), does, h("div", {class: "find-numbers"}, sums, spread), tagged, table.element);
  const pictures = createPictures(() => ({drawings: [{label: "Values", svg: () => spread.querySelector("svg")}], view: contexts, labels: {name: `bertscope-find-${units.write(chosen())}`, caption: `${modelName()}: ${units.said(chosen())}`}}), status.error);
  replace(container, h("div", {class: "find-panels"}, h("div", {class: "find-side"}, unit.element, corpus.element), contexts), h("footer", {class: "page-footer"}, status.element, bar, stop, linkButton(context),
    copyButton("Copy command", shellLine, context.announce), copyButton("Copy Python", pythonText, context.announce), pictures.element));

  const modelName = () => context.model()?.name.replace("models/", "") ?? "";

  /** The unit that the state names, else the head that other views look at, else the one that attends most to the token before. */
  function chosen() {
    const named = units.read(state.get().unit);
    const model = context.model();
    if (named && (!model || (named.layer < model.layers + Number((named.kind === "state" || units.inFile(named))) && (named.kind !== "head" || named.number < model.heads)))) return named;
    const at = /^(\d+)\.(\d+)$/.exec(state.get().at ?? "");
    if (at && (!model || (Number(at[1]) < model.layers && Number(at[2]) < model.heads))) return {kind: "head", layer: Number(at[1]), number: Number(at[2])};
    const {layer, head} = context.described()?.most("previous") ?? {layer: 0, head: 0};
    return {kind: "head", layer, number: head};
  }

  function shellLine() {
    const {find_only: only, model} = state.get();
    return command("find", corpus.name(), ...shellUnit(chosen(), unit), "--places", "30", ...(only ? only.split(/\s+/).flatMap(word => ["--word", word]) : []), ...(model ? ["--model", model] : []));
  }

  function pythonText() {
    const {find_only: only, model} = state.get();
    const texts = corpus.tagged() && !corpus.ships() ? `bertscope.read_conllu(${pythonQuoted(corpus.name())})` : `open(${pythonQuoted(corpus.name())}).read().splitlines()`;
    const words = only ? [`words=[${only.split(/\s+/).map(pythonQuoted).join(", ")}]`] : [];
    return pythonLines(`client.find_contexts(${[texts, pythonUnit(chosen(), unit), "places=30", ...words, ...(model ? [`model=${pythonQuoted(model)}`] : [])].join(", ")})`);
  }

  async function refresh() {
    const texts = corpus.texts();
    const at = chosen();
    if (!texts.length || context.described() === undefined) return; // The description says which head is first.
    if (units.inFile(at) && !unit.opened()) {
      status.note("Open the file first: bertscope probe --keep FILE writes probes, bertscope codes --save FILE sparse codes.");
      return;
    }
    const like = at.kind === "state" ? unit.like() : units.inFile(at) ? {data: unit.data()} : {};
    const body = {texts, unit: units.write(at), model: state.get().model ?? "", only: (state.get().find_only ?? "").split(/\s+/).filter(Boolean), tags: corpus.tags(), ...like};
    const key = JSON.stringify([{...body, data: "", tags: ""}, unit.file(), corpus.name()]);
    if (key === asked) return;
    asked = key;
    const began = performance.now();
    status.waiting(`reading ${texts.length} sentences`);
    bar.max = texts.length;
    stop.hidden = false;
    let seen = () => {};
    greyWhile(new Promise(resolve => { seen = () => resolve(null); }), [contexts]);
    try {
      await asker.ask("find", body, {onEvent: (/** @type {any} */ event) => {
        if (event.progress) {
          bar.hidden = false;
          bar.value = event.progress.done;
        } else if (event.contexts) {
          found = {...event.contexts, unit: at, texts, values: {}};
          draw();
          seen();
        } else if (event.values) found.values = event.values;
      }});
      status.note(`${texts.length} sentences, ${found.count} places, in ${Math.round(performance.now() - began)} ms`);
      context.announce(`${units.said(at)}: ${found.count} places`);
      draw();
      if (at.kind === "head") overview("find_means", texts, {});
      if (at.kind === "neuron") overview("find_outstanding", texts, {layer: at.layer});
      if (at.kind === "code") overview("find_outstanding", texts, {layer: at.layer, codes: true, data: unit.data()});
    } catch (error) {
      if (asked !== key) return; // A newer question took its place.
      if (error instanceof DOMException) status.note("Stopped.");
      else {
        asked = "";
        status.error(error);
      }
    } finally {
      seen();
      if (asked === key || !asked) bar.hidden = stop.hidden = true;
    }
  }

  /** Asks about all heads, or all neurons or codes of a layer: once for a corpus and a model. @param {"find_means" | "find_outstanding"} question @param {string[]} texts @param {object} more */
  async function overview(question, texts, more) {
    const of = JSON.stringify([context.model()?.weights_digest, {...more, data: unit.file()}, texts]);
    if (known[question].of === of) return;
    known[question] = {of, found: null};
    try {
      const found = await overviewAsker.ask(question, {texts, model: state.get().model ?? "", ...more});
      known[question] = {of, found};
      draw();
    } catch {
      if (known[question].of === of) known[question] = {of: "", found: null}; // Places are shown all the same.
    }
  }

  /** @returns {Place[]} */
  const shown = () => (state.get().find_show === "tenths" ? found.tenths : found.best);

  /** The columns of the table. @param {number} most */
  function columns(most) {
    const key = VALUES[found.unit.kind];
    const text = (/** @type {Place} */ place) => found.texts[place.text];
    const part = (/** @type {Place} */ place, /** @type {[number, number]} */ [start, end]) => [...text(place)].slice(start, end).join("");
    const tags = corpus.tagged();
    return /** @type {import("../parts/data_table.js").Column[]} */ ([
      {key: "value", title: NUMBERS[key].name[0].toUpperCase() + NUMBERS[key].name.slice(1), meaning: NUMBERS[key].meaning, type: "number", value: place => place.value, cell: place => amount(place.value)},
      {key: "sentence", title: "Sentence", meaning: "Words are coloured by their values; a link opens the sentence in Explore", type: "text", value: text,
        cell: place => h("a", {class: "context", href: opens(place)}, words(text(place), place, found.values[place.text] ?? [], most, context.theme()))},
      ...(state.get().find_show === "tenths" ? [{key: "tenth", title: "Tenth", meaning: "1 has the smallest tenth of all values, 10 the largest", type: "kind", value: (/** @type {Place} */ place) => String(place.tenth).padStart(2)}] : []),
      {key: "word", title: "Word", meaning: "The word at which the unit has the value", type: "text", value: place => part(place, [place.start, place.end])},
      ...(found.unit.kind === "head" ? [{key: "partner", title: "Attends to", meaning: "The word that gets most of its attention, special tokens left out", type: "text", value: (/** @type {Place} */ place) => place.partner && part(place, place.partner)}] : []),
      ...(tags ? [{key: "tag", title: "Tag", meaning: "The word's part of speech in the treebank (UPOS)", type: "kind", value: (/** @type {Place} */ place) => corpus.tag(place.text, place.start)}] : []),
    ]);
  }

  /** The address in Explore: for a head, its attention from this word. @param {Place} place */
  function opens(place) {
    const {kind, layer, number} = found.unit;
    const known = found.values[place.text];
    const row = known && 1 + known.filter((/** @type {number[]} */ [start]) => start < place.start).length; // The first special token stands before all words.
    return state.link({view: "explore", text: found.texts[place.text], ...(kind === "head" && {at: `${layer}.${number}`, ...(row && {words: "1", row: String(row)})})}).slice(window.location.origin.length + 1);
  }

  function draw() {
    const at = chosen();
    const now = state.get();
    const {find_means: {found: all}, find_outstanding: {found: outstanding}} = known;
    unit.update(all && new Map(all.heads.map((/** @type {any} */ [layer, head, mean]) => [`${layer}.${head}`, mean])), outstanding?.units ?? null);
    show.set(now.find_show ?? "best");
    if (document.activeElement !== only) only.value = now.find_only ?? "";
    title.textContent = `Contexts: ${units.said(at)}`;
    does.textContent = at.kind === "head" ? context.described()?.words(at.layer, at.number) ?? "" : unit.name(at);
    if (!found) return;
    const rows = shown();
    const most = Math.max(...[...found.best, ...found.tenths].map(place => Math.abs(place.value)));
    replace(sums, h("span", means("places"), `${found.count} places`), ", ", h("span", means(VALUES[found.unit.kind]), `mean ${amount(found.mean ?? 0)}, standard deviation ${amount(found.deviation ?? 0)}`));
    tagged.hidden = !found.tags.length;
    replace(tagged, found.tags.map(tagSaid));
    replace(spread, found.edges.length > 0 && histogram(found.edges, found.histogram, NUMBERS[VALUES[found.unit.kind]].unit));
    table.update({rows, columns: columns(most), sort: now.find_sort ?? "", filters: filtersOf(now.find_filters), stamp: place => JSON.stringify([found.values[place.text], most, context.theme(), opens(place)])});
  }

  /** @param {Record<string, string>} _ @param {Set<string>} changed */
  function update(_, changed) {
    if (changed.has("model")) found = null;
    draw();
    if (context.model()) refresh();
    else status.note("No such model is loaded.");
  }

  corpus.begin();
  update(state.get(), new Set());
  return {update, unmount: () => [asker, overviewAsker, corpus].forEach(each => each.stop())};
}
