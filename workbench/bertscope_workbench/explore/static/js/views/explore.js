// The Explore view: a sentence, what the model predicts, its heads; and what changes when heads are changed.

import {choice, h, replace} from "../dom.js";
import {EXAMPLES} from "../examples.js";
import {percent} from "../format.js";
import {NUMBERS, means} from "../numbers.js";
import * as changing from "../parts/changes.js";
import {create as createAsking, noModel} from "../parts/asking.js";
import {create as createChips} from "../parts/chips.js";
import {command, copyButton, linkButton, pythonLines, pythonQuoted} from "../parts/copying.js";
import {create as createDetail} from "../parts/head_detail.js";
import {create as createGrid, largestOf} from "../parts/head_grid.js";
import {decode} from "../parts/maps.js";
import {create as createPictures} from "../parts/pictures.js";
import {create as createPredictions} from "../parts/predictions.js";
import {EMPTY, create as createSentence} from "../parts/sentence.js";
import {findLink} from "../parts/units.js";
import {createWords} from "./explore_words.js";
import {createWorth} from "./explore_worth.js";

const BRUSHES = [["look", "○", "looks", "l"], ...Object.entries(changing.KINDS).map(([kind, {glyph, verb, key}]) => [kind, glyph, verb, key])];

/** @param {Element} container @param {any} context */
export function mount(container, context) {
  const {state} = context;
  /** The newest answer; null before the first. @type {any} */
  let answer = null;

  const sentence = createSentence((text, pause) => set({text, row: null, window: null, mask: null, answer: null, over: null, taken: null}, !pause));
  const predictions = createPredictions(number => set({mask: String(number), answer: null, over: null}, false), (token, against) => set({[against ? "over" : "answer"]: token}, true));
  const words = createWords(context, (patch, push) => set(patch, push));
  const grid = createGrid(painted, letter, said => { readout.textContent = said || "Point at a head, or go there with the arrows."; });
  const chips = createChips(places => setChanges(changes => { for (const place of places) changes.delete(place); }, true));
  const detail = createDetail((patch, push) => set(patch, push), row => {
    const token = answer?.start.tokens[row];
    if (token && !token.special) sentence.maskCodePoints(token.start, token.end);
  }, (layer, head) => findLink(state, {kind: "head", layer, number: head}));
  const worth = createWorth(context, draw);
  const show = choice("The grid shows", [["maps", "Maps"], ["moved", "Moved"], ["worth", "Worth"]], "maps", value => set({show: value}, true));
  const factor = h("input", {type: "range", min: "0", max: "2", step: "0.1", "aria-label": "Factor", ...means("factor"), oninput: () => set({factor: factor.value}, false)});
  const factorLabel = h("label", {class: "inline"}, factor, h("span", {class: "threshold-value"}));
  const reference = h("textarea", {rows: "2", "aria-label": "Reference texts, one a line", placeholder: "Reference texts, one a line: heads give their mean over these",
    onchange: () => set({reference: reference.value.trim() || null}, true)});
  const brush = choice("A click", BRUSHES.map(([kind, glyph, verb]) => [kind, [changing.mark(kind, glyph), ` ${verb}`]]), "look", value => set({brush: value}, false));
  brush.element.classList.add("brushes");
  const legend = h("p", {class: "legend soft"});
  const readout = h("p", {class: "readout soft"}, "Point at a head, or go there with the arrows.");
  const undo = h("button", {type: "button", onclick: () => state.undo()}, "Undo");
  const reset = h("button", {type: "button", onclick: () => set({changes: null}, true)}, "Reset");
  const predictionPanel = h("section", {class: "panel", "aria-label": "Predictions"}, h("header", null, h("h2", null, "Predictions")), predictions.element);
  const gridPanel = h("section", {class: "panel heads-panel", "aria-label": "Heads"}, h("header", null, h("h2", null, "Heads"), show.element),
    h("div", {class: "brush-line"}, h("span", {class: "soft"}, "A click"), brush.element, factorLabel), reference,
    h("div", {class: "grid-scroll"}, grid.element), readout, legend, chips.element, h("div", {class: "grid-buttons"}, undo, reset, worth.button), worth.element);
  const {status, ...asking} = createAsking(context, [predictionPanel, grid.element, legend, ...detail.results]);
  const panels = h("div", {class: "explore-panels"}, predictionPanel, gridPanel, detail.element);
  const whole = h("div", null, words.element, panels);
  const pictures = createPictures(() => ({
    drawings: [{label: "Heads", svg: grid.toSvg}, {label: "Attention", svg: detail.toSvg}], view: whole,
    labels: {name: `bertscope-${modelName()}`, caption: `${modelName()}: ${now().text}`, commands: ["fill", "attention", ...(now().why ? ["attribute"] : [])]},
  }), status.error);
  const copies = [linkButton(context), copyButton("Copy command", shellLine, context.announce), copyButton("Copy Python", pythonText, context.announce)];
  replace(container, sentence.element, asking.reason, whole, h("footer", {class: "page-footer"}, status.element, copies, pictures.element));

  const now = () => ({text: EXAMPLES[0], show: "maps", brush: "look", factor: "0.5", ...state.get()});
  const modelName = () => context.model()?.name.replace("models/", "") ?? "";
  const changes = () => changing.read(now().changes);
  /** @param {Record<string, string | null>} patch @param {boolean} push */
  const set = (patch, push) => state.set(patch, {push});
  /** @param {(changes: changing.Changes) => void} change @param {boolean} push */
  function setChanges(change, push) {
    const next = changes();
    change(next);
    set({changes: changing.write(next) || null}, push);
  }

  /** @type {{kind: string, factor: number} | null} What the stroke does; null takes changes back. */
  let stroke = null;
  /** @param {string[]} places @param {boolean} first */
  function painted(places, first) {
    const {brush: kind, factor: by} = now();
    if (kind === "look") {
      if (places.length === 1) set({at: places[0], row: now().row ?? null}, first);
      return;
    }
    const before = changes();
    const wanted = {kind, factor: kind === "s" ? Number(by) : 0};
    const same = (/** @type {string} */ place) => before.get(place)?.kind === wanted.kind && before.get(place)?.factor === wanted.factor;
    if (first) stroke = places.every(same) ? null : wanted;
    setChanges(next => { for (const place of places) { if (stroke) next.set(place, stroke); else next.delete(place); } }, first);
  }

  /** @param {string} key */
  function letter(key) {
    const found = key === "Escape" ? "look" : BRUSHES.find(each => each[3] === key.toLowerCase())?.[0];
    if (found) set({brush: found}, false);
  }

  function shellLine() {
    return command("fill", now().text, ...changing.options(changes()), ...(state.get().model ? ["--model", state.get().model] : []), "--top-k", "10");
  }

  function pythonText() {
    const [layer, head] = place() ?? [0, 0];
    const lines = [pythonQuoted(now().text), ...(state.get().model ? [`model=${pythonQuoted(state.get().model)}`] : []), "top_k=10"];
    if (changes().size) lines.push(`interventions=${changing.python(changes())}`, "compare_untouched=True");
    if (references().length) lines.push(`reference_texts=[${references().map(pythonQuoted).join(", ")}]`);
    lines.push(`maps=bertscope.MapView({${layer}: [${head}]})`);
    return pythonLines(`client.inspect(${lines.join(", ")})`);
  }

  const usesReference = () => [...changes().values()].some(({kind}) => kind === "m");
  const references = () => (usesReference() ? (now().reference ?? "").split("\n").filter(Boolean) : []);

  /** The layer and head that are looked at: those that the state names, else one that teaches; null while that one is sought. */
  function place() {
    const found = /^(\d+)\.(\d+)$/.exec(now().at ?? "");
    const model = context.model();
    const inside = found && (!model || (Number(found[1]) < model.layers && Number(found[2]) < model.heads));
    if (inside) return [Number(found[1]), Number(found[2])];
    const described = context.described();
    if (described === undefined) return null;
    const {layer, head} = described?.most("previous") ?? {layer: 0, head: 0};
    return [layer, head];
  }

  /** The question about the sentence, without the head that is looked at. */
  const question = () => ({text: now().text, model: state.get().model ?? "", changes: changing.asked(changes()), reference_texts: references(), words: now().words === "1"});

  /** Asks for what the state shows. */
  async function refresh() {
    const at = place();
    const window = (now().window ?? "").split("-").map(Number);
    const body = {...question(), detail: at ? [{layer: at[0], head: at[1], ...(window.length === 4 && {rows: window.slice(0, 2), columns: window.slice(2)})}] : []};
    if (!body.text.trim()) {
      asking.none(EMPTY);
      return;
    }
    if (usesReference() && !references().length) {
      asking.refuse("Write reference texts: the mean of a head is taken over them.");
      return;
    }
    const of = JSON.stringify(question());
    const same = answer?.of === of;
    const began = performance.now();
    /** @type {any} */
    const next = same ? {...answer, detail: null} : {of, moved: null, pictures: null, detail: null};
    const onEvent = (/** @type {any} */ event) => {
      Object.assign(next, event);
      if (event.pictures) next.pictures = decode(event.pictures);
      if (event.detail) next.detail = decode(event.detail);
      answer = {...next, moved: next.moved ?? (same ? answer.moved : null), pictures: next.pictures ?? (next.start.layers === answer?.start.layers ? answer?.pictures : null)};
      draw();
    };
    if (!await asking.ask("inspect", {...body, pictures: !same}, onEvent, body)) return;
    const {start} = answer;
    const cut = start.truncated_tokens ? `; ${start.truncated_tokens} tokens were cut off` : "";
    status.note(`${start.pieces} tokens${cut}; updated in ${Math.round(performance.now() - began)} ms, of which the device took ${Math.round(start.device_seconds * 1000)}`);
    const best = start.masks[0]?.entries[0];
    context.announce(best ? `${best.token} ${percent(best.probability)}` : "updated");
    if (now().show === "worth") worth.again();
  }

  /** Draws the newest answer under the state. */
  function draw() {
    const values = now();
    sentence.set(values.text);
    show.set(values.show);
    brush.set(values.brush);
    factor.value = values.factor;
    factorLabel.lastChild.textContent = `× ${Number(values.factor)}`;
    factorLabel.hidden = values.brush !== "s";
    reference.hidden = values.brush !== "m" && !usesReference();
    if (document.activeElement !== reference) reference.value = values.reference ?? "";
    undo.disabled = !state.canUndo();
    reset.disabled = !changes().size;
    panels.classList.toggle("large", values.large === "1");
    chips.update({changes: changes(), heads: context.model()?.heads ?? 0});
    words.update({now: values, start: answer?.of === JSON.stringify(question()) ? answer.start : null, changes: changes(), references: references()});
    if (!answer?.start) return;
    const {start, moved, pictures: small, detail: map} = answer;
    const at = place();
    const data = {layers: start.layers, heads: start.heads, show: values.show, pictures: small, moved, worth: worth.effects(), changes: changes(), at: at?.join(".") ?? "", theme: context.theme(), described: context.described()};
    predictions.update({masks: start.masks, number: Number(values.mask ?? 0), masked_lm: start.masked_lm, compared: start.compared, explained: words.explained()});
    grid.update(data);
    worth.update(start);
    drawLegend(data);
    detail.update({state: values, at, tokens: start.tokens, map, moved, row: rowOf(start), theme: data.theme});
  }

  /** The token that is looked from: the chosen one, else the first mask, else the first. @param {any} start */
  function rowOf(start) {
    const chosen = Number(now().row);
    if (now().row && chosen < start.tokens.length) return chosen;
    const mask = start.masks[Number(now().mask ?? 0)] ?? start.masks[0];
    return Math.max(0, mask ? start.tokens.findIndex((/** @type {any} */ token) => !token.special && token.start <= mask.start && token.end >= mask.end) : 0);
  }

  /** @param {import("../parts/head_grid.js").GridData} data */
  function drawLegend(data) {
    const {unit, meaning} = NUMBERS[data.show];
    const none = (data.show === "moved" && !data.moved && "Nothing is changed, so that nothing moved.") || (data.show === "worth" && !data.worth.size && "Nothing is measured yet: press Measure every head.");
    const largest = data.show === "maps" ? "its largest" : data.show === "moved" ? percent(largestOf(data)).replace(/\s*%$/, "") : largestOf(data).toFixed(3);
    replace(legend, none || ["0 ", h("span", {class: `scale ${data.show}`, "aria-hidden": "true"}), ` ${largest} ${unit}`, h("span", {class: "legend-text", ...means(data.show)}, meaning)]);
  }

  /** @param {Record<string, string>} _ @param {Set<string>} changed */
  function update(_, changed) {
    if (changed.has("text") || changed.has("changes") || changed.has("model") || changed.has("reference")) worth.forget();
    if (context.model()) refresh(); // First: the server computes while the page draws.
    else asking.none(noModel(context));
    draw();
  }

  draw();
  update(state.get(), new Set());
  return {update, unmount: () => { asking.stop(); worth.stop(); words.stop(); }};
}
