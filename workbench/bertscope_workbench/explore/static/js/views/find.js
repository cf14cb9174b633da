// The Find view: the words of a corpus at which a head, a neuron or another unit is largest, and some from each tenth of its values.

import {choice, h, replace} from "../dom.js";
import {percent} from "../format.js";
import {create as createAsking, noModel} from "../parts/asking.js";
import {command, copyButton, linkButton, pythonLines, pythonQuoted} from "../parts/copying.js";
import {amount, histogram, words} from "../parts/contexts.js";
import {create as createTable, filtersOf} from "../parts/data_table.js";
import {create as createPictures} from "../parts/pictures.js";
import {NUMBERS, means} from "../numbers.js";
import * as units from "../parts/units.js";
import {pythonUnit, shellUnit} from "./find_copies.js";
import {createCorpus, mostlyTagged} from "./find_corpus.js";
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
  const overviewAsker = api.latest();
  /** The newest answer, and of which question. @type {any} */
  let found = null;
  /** A unit of the address that the model does not have. */
  let missing = "";
  const corpus = createCorpus(context, update);
  const unit = createUnit(context, chosen, update);
  const title = h("h2");
  const does = h("p", {class: "soft"});
  const none = h("p", {class: "soft", role: "status", hidden: true});
  const why = h("p", {class: "find-why"});
  const sums = h("p", {class: "find-sums"});
  const spread = h("div");
  const tagged = h("p", {class: "find-tags", ...means("tagged")});
  const show = choice("Shown", [["best", "Best places"], ["tenths", "From each tenth"]], "best", value => state.set({find_show: value === "best" ? null : value}, {push: true}));
  const only = h("input", {type: "search", "aria-label": "Only at this word", placeholder: "only at this word", spellcheck: "false", onchange: () => state.set({find_only: only.value.trim() || null}, {push: true})});
  const table = createTable("Contexts", pick => state.set({...(pick.sort !== undefined && {find_sort: pick.sort}), ...(pick.filters && {find_filters: Object.keys(pick.filters).length ? JSON.stringify(pick.filters) : null})}, {push: pick.sort !== undefined}));
  const bar = h("progress", {hidden: true, "aria-label": "Sentences read"});
  const stop = h("button", {type: "button", hidden: true, onclick: () => asking.stop()}, "Stop");
  const results = h("div", null, h("div", {class: "find-numbers"}, sums, spread), tagged, table.element);
  const contexts = h("section", {class: "panel", "aria-label": "Contexts of the unit"}, h("header", null, title, show.element, only), none, does, why, results);
  const {status, ...asking} = createAsking(context, [results]);
  const pictures = createPictures(() => ({drawings: [{label: "Values", svg: () => spread.querySelector("svg")}], view: contexts, labels: {name: `bertscope-find-${units.write(chosen())}`, caption: `${modelName()}: ${units.said(chosen())}`, commands: ["find"]}}), status.error);
  replace(container, asking.reason, h("div", {class: "find-panels"}, h("div", {class: "find-side"}, unit.element, corpus.element), contexts), h("footer", {class: "page-footer"}, status.element, bar, stop, linkButton(context),
    copyButton("Copy command", shellLine, context.announce), copyButton("Copy Python", pythonText, context.announce), pictures.element));

  const modelName = () => context.model()?.name.replace("models/", "") ?? "";

  /** The unit of an address; null for one that the model does not have. @param {string | undefined} text */
  function unitOf(text) {
    const named = units.read(text);
    const model = context.model();
    return named && (!model || (named.layer < model.layers + Number(named.kind === "state" || units.inFile(named)) && (named.kind !== "head" || named.number < model.heads))) ? named : null;
  }

  /** The unit that the state names, else the head that other views look at, else the one that attends most to the token before. */
  function chosen() {
    const named = unitOf(state.get().unit);
    if (named) return named;
    const model = context.model();
    const at = /^(\d+)\.(\d+)$/.exec(state.get().at ?? "");
    if (at && (!model || (Number(at[1]) < model.layers && Number(at[2]) < model.heads))) return {kind: "head", layer: Number(at[1]), number: Number(at[2])};
    const {layer, head} = context.described()?.most("previous") ?? {layer: 0, head: 0};
    return {kind: "head", layer, number: head};
  }

  function shellLine() {
    const {find_only: only, model} = state.get();
    return command("find", corpus.now().file, ...shellUnit(chosen(), unit), "--places", "30", ...(only ? only.split(/\s+/).flatMap(word => ["--word", word]) : []), ...(model ? ["--model", model] : []));
  }

  function pythonText() {
    const {find_only: only, model} = state.get();
    const {file, tags} = corpus.now();
    const texts = tags.some(Boolean) && !corpus.ships() ? `bertscope_workbench.read_conllu(${pythonQuoted(file)})` : `open(${pythonQuoted(file)}).read().splitlines()`;
    const words = only ? [`words=[${only.split(/\s+/).map(pythonQuoted).join(", ")}]`] : [];
    return pythonLines(`client.find_contexts(${[texts, pythonUnit(chosen(), unit), "places=30", ...words, ...(model ? [`model=${pythonQuoted(model)}`] : [])].join(", ")})`);
  }

  /** What is asked: nothing that was found for another question is shown. */
  function question() {
    const at = chosen();
    const only = (state.get().find_only ?? "").split(/\s+/).filter(Boolean);
    return {unit: units.write(at), model: state.get().model ?? "", only, ...(at.kind === "state" && unit.like())};
  }
  const keyOf = () => JSON.stringify([question(), context.model()?.weights_digest, corpus.now().number, units.inFile(chosen()) && unit.fileNumber()]);

  /** Why nothing can be asked; "" if it can. */
  function hindered() {
    if (!context.model()) return noModel(context);
    return units.inFile(chosen()) && !unit.opened() ? "Open the file first: bertscope probe --keep FILE writes probes, bertscope codes --save FILE sparse codes." : "";
  }

  async function refresh() {
    if (hindered()) {
      asking.refuse(hindered());
      draw();
      return;
    }
    const looked = corpus.now();
    const {texts} = looked;
    if (!texts.length || context.described() === undefined) return; // The description says which head is first.
    const at = chosen();
    const body = {...question(), texts, tags: looked.written, ...(units.inFile(at) && {data: unit.data()})};
    const key = keyOf();
    const began = performance.now();
    const asked = asking.ask("find", body, event => {
      if (event.progress) {
        [bar.hidden, bar.max, bar.value] = [false, texts.length, event.progress.done];
      } else if (event.contexts) {
        found = {...event.contexts, of: key, unit: at, corpus: looked, texts, values: {}};
        draw();
      } else if (event.values) found.values = event.values;
    }, key);
    busy(asking.waits());
    if (asking.waits()) status.waiting(`reading ${texts.length} sentences`);
    draw();
    const last = await asked;
    busy(asking.waits());
    draw();
    if (!last) return;
    status.note(`${texts.length} sentences, ${found.count} places, in ${Math.round(performance.now() - began)} ms`);
    context.announce(`${units.said(at)}: ${found.count} places`);
    overview();
  }

  /** What is asked about all heads, or all neurons or codes of a layer, beside this unit; null beside another one. */
  function overviewed() {
    const {kind, layer} = chosen();
    const {texts} = corpus.now();
    const [question, more] = kind === "head" ? ["find_means", {}] : kind === "neuron" ? ["find_outstanding", {layer}] : ["find_outstanding", {layer, codes: true, data: unit.data()}];
    if (kind === "state" || kind === "probe") return null;
    return {question, body: {texts, model: state.get().model ?? "", ...more}, of: JSON.stringify([context.model()?.weights_digest, {...more, data: unit.fileNumber()}, texts])};
  }

  /** Asks it, once for a corpus and a model. */
  async function overview() {
    const wanted = overviewed();
    if (!wanted || known[wanted.question].of === wanted.of) return;
    const {question, body, of} = wanted;
    known[question] = {of, found: null};
    try {
      known[question] = {of, found: await overviewAsker.ask(question, body)};
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
    const {corpus: {tags}} = found;
    return /** @type {import("../parts/data_table.js").Column[]} */ ([
      {key: "value", title: NUMBERS[key].name[0].toUpperCase() + NUMBERS[key].name.slice(1), meaning: NUMBERS[key].meaning, type: "number", value: place => place.value, cell: place => amount(place.value)},
      {key: "sentence", title: "Sentence", meaning: "Words are coloured by their values; a link opens the sentence in Explore", type: "text", value: text,
        cell: place => h("a", {class: "context", href: opens(place)}, words(text(place), place, found.values[place.text] ?? [], most, context.theme()))},
      ...(state.get().find_show === "tenths" ? [{key: "tenth", title: "Tenth", meaning: "1 has the smallest tenth of all values, 10 the largest", type: "kind", value: (/** @type {Place} */ place) => String(place.tenth).padStart(2)}] : []),
      {key: "word", title: "Word", meaning: "The word at which the unit has the value", type: "text", value: place => part(place, [place.start, place.end])},
      ...(found.unit.kind === "head" ? [{key: "partner", title: "Attends to", meaning: "The word that gets most of its attention, special tokens left out", type: "text", value: (/** @type {Place} */ place) => place.partner && part(place, place.partner)}] : []),
      ...(mostlyTagged(found.corpus) ? [{key: "tag", title: "Tag", meaning: "The word's part of speech in the treebank (UPOS)", type: "kind", value: (/** @type {Place} */ place) => tags[place.text]?.get(place.start) ?? null}] : []),
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
    const wanted = overviewed();
    const over = wanted && known[wanted.question].of === wanted.of ? known[wanted.question].found : null;
    unit.update(over?.heads && new Map(over.heads.map((/** @type {any} */ [layer, head, mean]) => [`${layer}.${head}`, mean])), over?.units ?? null);
    show.set(now.find_show ?? "best");
    if (document.activeElement !== only) only.value = now.find_only ?? "";
    title.textContent = `Contexts: ${units.said(at)}`;
    does.textContent = at.kind === "head" ? context.described()?.measured(at.layer, at.number) ?? "" : unit.name(at);
    none.hidden = !missing;
    none.textContent = missing && `${context.model()?.name.replace("models/", "") ?? "The model"} has no unit ${missing}; this is another one.`;
    results.hidden = found?.of !== keyOf();
    why.textContent = results.hidden ? status.element.textContent : "";
    if (results.hidden) replace(spread);
    if (results.hidden) return;
    const rows = shown();
    const most = Math.max(...[...found.best, ...found.tenths].map(place => Math.abs(place.value)));
    replace(sums, h("span", means("places"), `${found.count} places`), ", ", h("span", means(VALUES[found.unit.kind]), `mean ${amount(found.mean ?? 0)}, standard deviation ${amount(found.deviation ?? 0)}`),
      found.cut > 0 && `; ${found.cut} of ${found.texts.length} sentences are longer than the model reads: their ends are left out`);
    tagged.hidden = !found.tags.length;
    replace(tagged, found.tags.map(tagSaid));
    replace(spread, found.edges.length > 0 && histogram(found.edges, found.histogram, NUMBERS[VALUES[found.unit.kind]].unit));
    table.update({rows, columns: columns(most), sort: now.find_sort ?? "", filters: filtersOf(now.find_filters), stamp: place => JSON.stringify([found.values[place.text], most, context.theme(), opens(place)])});
  }

  /** @param {boolean} now */
  function busy(now) {
    stop.hidden = !now;
    if (!now) bar.hidden = true;
  }

  function update() {
    const {unit: named} = state.get();
    if (named && !unitOf(named)) {
      missing = JSON.stringify(named.length > 40 ? `${named.slice(0, 40)}…` : named);
      queueMicrotask(() => state.set({unit: null}, {push: false})); // Comes back here, once the view is open.
      return;
    }
    if (named) missing = "";
    draw();
    refresh();
  }

  corpus.begin();
  update();
  return {update, unmount: () => [asking, overviewAsker, corpus].forEach(each => each.stop())};
}
