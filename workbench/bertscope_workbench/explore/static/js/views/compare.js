// The Compare view: one sentence, two models, or one model with and without the changes made under Explore.

import {h, replace} from "../dom.js";
import {EXAMPLES} from "../examples.js";
import {said as saidOf} from "../fields.js";
import {percent} from "../format.js";
import {means} from "../numbers.js";
import {create as createAsking, noModel} from "../parts/asking.js";
import {create as createMatrix} from "../parts/attention_matrix.js";
import * as changing from "../parts/changes.js";
import {create as createChips} from "../parts/chips.js";
import {command, copyButton, linkButton, pythonLines, pythonQuoted} from "../parts/copying.js";
import {create as createGrid, largestOf} from "../parts/head_grid.js";
import {decode} from "../parts/maps.js";
import {create as createPictures} from "../parts/pictures.js";
import {EMPTY, create as createSentence} from "../parts/sentence.js";
import {findLink} from "../parts/units.js";

const SHOWN = 12;

/** @param {Element} container @param {any} context */
export function mount(container, context) {
  const {state} = context;
  /** @type {any} */ let answer = {};
  const sentence = createSentence((text, pause) => set({text}, !pause));
  const other = h("select", {"aria-label": "The other model", onchange: () => set({other: other.value}, true)});
  const name = h("strong");
  const chips = createChips(places => {
    const next = changes();
    for (const place of places) next.delete(place);
    set({changes: changing.write(next) || null}, true);
  });
  const predictions = h("div", {class: "predictions"});
  const grid = createGrid((places, first) => { if (places.length === 1) set({at: places[0]}, first); }, () => {});
  const note = h("p", {class: "soft", ...means("divergence")});
  const title = h("h2", null, "Both maps");
  const readouts = [h("p", {class: "soft readout", ...means("weight")}), h("p", {class: "soft readout", ...means("weight")})];
  const matrices = readouts.map(read => createMatrix(row => set({row: String(row)}, false), () => {}, text => { read.textContent = text; }));
  const names = [h("h3"), h("h3")];
  const predictionPanel = h("section", {class: "panel", "aria-label": "Predictions of both"}, h("header", null, h("h2", null, "Predictions of both")),
    h("div", {class: "compare-models"}, h("span", null, h("span", {class: "swatch left"}), name), h("label", null, h("span", {class: "swatch right"}), "and ", other)), chips.element, predictions);
  const gridPanel = h("section", {class: "panel", "aria-label": "Where their attention differs"}, h("header", null, h("h2", null, "Where their attention differs")),
    note, h("div", {class: "grid-scroll compare-grid"}, grid.element));
  const drawn = [title, h("div", {class: "pair-maps head-drawing"}, matrices.map((matrix, side) => h("div", null, names[side], matrix.element, readouts[side])))];
  const mapsPanel = h("section", {class: "panel both", "aria-label": "Both maps of one head"}, h("header", null, drawn[0]), drawn[1]);
  const {status, ...asking} = createAsking(context, [predictions, note, grid.element, ...drawn]);
  const panels = h("div", {class: "compare-panels"}, predictionPanel, gridPanel, mapsPanel);
  const pictures = createPictures(() => ({
    drawings: [{label: "Heads", svg: grid.toSvg}, {label: "First map", svg: matrices[0].toSvg}, {label: "Second map", svg: matrices[1].toSvg}], view: panels,
    labels: {name: "bertscope-compare", caption: `${leftName()} and ${rightName()}: ${now().text}`, commands: ["fill", "attention compare"]},
  }), status.error);
  replace(container, sentence.element, asking.reason, panels, h("footer", {class: "page-footer"}, status.element,
    linkButton(context), copyButton("Copy command", shellLine, context.announce),
    copyButton("Copy Python", pythonText, context.announce), pictures.element));

  /** @param {Record<string, string | null>} patch @param {boolean} push */
  function set(patch, push) { state.set(patch, {push}); }
  function now() { return {text: EXAMPLES[0], ...state.get()}; }
  function changes() { return changing.read(now().changes); }
  function hosted() { return context.models().map((/** @type {any} */ each) => each.name.replace("models/", "")); }
  function leftName() { return context.model()?.name.replace("models/", "") ?? ""; }
  /** The chosen model, else another than the first, unless heads are changed or there is no other. */
  function second() {
    const others = changes().size ? [] : hosted();
    return now().other || others.find((/** @type {string} */ each) => each !== leftName()) || leftName();
  }
  function rightName() {
    return second() + (changes().size ? " changed" : "");
  }

  function shellLine() {
    return command(`attention compare ${second()}`, now().text, ...changing.options(changes()), ...(now().model ? ["--model", now().model] : []));
  }

  function pythonText() {
    const words = [pythonQuoted(now().text), pythonQuoted(second()), ...(now().model ? [`model=${pythonQuoted(now().model)}`] : [])];
    if (changes().size) words.push(`interventions=${changing.python(changes())}`);
    return pythonLines(`client.compare_attention(${words.join(", ")})`);
  }

  function place() {
    const [, layer, head] = (/^(\d+)\.(\d+)$/.exec(now().at ?? "") ?? []).map(Number);
    const both = [context.model(), context.models().find((/** @type {any} */ each) => each.name === `models/${second()}`)].filter(Boolean);
    return both.every(model => layer < model.layers && head < model.heads) ? [layer, head] : [0, 0];
  }

  /** What to do where there is nothing to compare; "" where there is. */
  const nothing = () => (changes().size || second() !== leftName() ? ""
    : `${context.models().length > 1 ? "Choose another model" : "This is the only model: load another one, under Models"}, or change heads under Explore: then the model is compared with itself as changed there.`);

  async function refresh() {
    const [layer, head] = place();
    const reference = [...changes().values()].some(({kind}) => kind === "m") ? (now().reference ?? "").split("\n").filter(Boolean) : [];
    const body = {text: now().text, model: now().model ?? "", other: second() === leftName() ? "" : second(), changes: changing.asked(changes()), reference_texts: reference, detail: [{layer, head}]};
    if (!body.text.trim()) {
      asking.none(EMPTY);
      return;
    }
    const began = performance.now();
    /** @type {any} */ const next = {};
    const last = await asking.ask("compare", body, event => {
      Object.assign(next, event);
      answer = {...next};
      draw();
    });
    if (!last) return;
    status.note(nothing() || `compared in ${Math.round(performance.now() - began)} ms`);
    context.announce("compared");
  }

  function draw() {
    sentence.set(now().text);
    name.textContent = leftName();
    replace(other, h("option", {value: leftName()}, `${leftName()}${changes().size ? ", with the changes" : ""}`), hosted()
      .filter((/** @type {string} */ each) => each !== leftName()).map((/** @type {string} */ each) => h("option", {value: each}, each)));
    other.value = second();
    chips.element.hidden = !changes().size;
    if (!answer.left) return;
    const [layer, head] = place();
    const {left, right, distances, incomparable} = answer;
    chips.update({changes: changes(), heads: left.start.heads});
    replace(predictions, ...paired(left.start, right.start));
    const moved = distances?.divergence ?? null;
    const data = {layers: left.start.layers, heads: left.start.heads, show: /** @type {"moved"} */ ("moved"), pictures: null, moved, worth: new Map(), changes: new Map(),
      at: `${layer}.${head}`, theme: context.theme(), said: (/** @type {number} */ value) => `${Number(value.toPrecision(2))} nats apart`, described: context.described()};
    grid.update(data);
    const {layers: all, heads} = left.start;
    replace(note, incomparable ? saidOf(incomparable.message) : !moved ? ["Both sides are the same model, unchanged. ",
      h("button", {type: "button", onclick: () => set({changes: all > 4 && heads > 10 ? "x3-1_x4-10" : "x0-0"}, true)}, "Example: silence heads on one side")] :
      `Jensen-Shannon divergence of each head's attention in the two, mean over the tokens, up to ${Number(largestOf(data).toPrecision(2))} nats (most possible: 0.693).`);
    replace(title, `Both maps of layer ${layer}, head ${head} `, findLink(state, {kind: "head", layer, number: head}));
    [left, right].forEach((side, index) => drawMap(side, index));
  }

  /** @param {any} side @param {number} index */
  function drawMap(side, index) {
    replace(names[index], h("span", {class: `swatch ${index ? "right" : "left"}`}), index ? rightName() : leftName());
    if (!side.detail) return;
    side.decoded ??= decode(side.detail);
    const tokens = side.start.tokens;
    const mask = side.start.masks[0];
    const row = now().row ? Math.min(Number(now().row), tokens.length - 1) : Math.max(0, tokens.findIndex((/** @type {any} */ token) => mask && !token.special && token.start === mask.start));
    matrices[index].update({tokens, map: side.decoded, row, special: true, threshold: 0, theme: context.theme()});
  }

  /** @param {any} left @param {any} right */
  function paired(left, right) {
    const [mine, theirs] = [left.masks[0], right.masks[0]];
    if (!mine || !theirs) return [h("p", {class: "soft"}, left.masked_lm && right.masked_lm ? "No mask: the attention of both is shown all the same." : "One of the models predicts no words.")];
    const table = new Map(theirs.entries.map((/** @type {any} */ entry) => [entry.key, entry.probability]));
    const words = mine.entries.map((/** @type {any} */ entry) => [entry.token, entry.probability, table.get(entry.key)]);
    for (const {token, key, probability} of theirs.entries) if (!mine.entries.some((/** @type {any} */ entry) => entry.key === key)) words.push([token, undefined, probability]);
    const best = [1, 2].map(side => words.reduce((/** @type {any} */ a, /** @type {any} */ b) => ((b[side] ?? 0) > (a[side] ?? 0) ? b : a))[0]);
    const most = Math.max(...words.flatMap((/** @type {any} */ word) => [word[1] ?? 0, word[2] ?? 0]));
    const headline = best[0] === best[1] ? `Both write ${best[0]}.` : `${leftName()} writes ${best[0]}, ${rightName()} ${best[1]}.`;
    return [h("p", {class: "headline"}, h("strong", null, headline)), h("ol", {class: "pair-bars"}, words.slice(0, SHOWN).map((/** @type {any} */ [token, one, two]) =>
      h("li", null, h("span", {class: "bar-name", title: token}, token),
        h("span", {"aria-hidden": "true"}, bar("left", one, most), bar("right", two, most)), h("span", {class: "number", ...means("probability")}, `${said(one)} · ${said(two)}`))))];
  }

  function update() {
    draw();
    if (context.model()) refresh();
    else asking.none(noModel(context));
  }
  update();
  return {update, unmount: asking.stop};
}

/** @param {string} side @param {number | undefined} share @param {number} most */
const bar = (side, share, most) => h("span", {class: `bar ${side}`, style: {width: `${(100 * (share ?? 0)) / most}%`}});

/** @param {number | undefined} share */
const said = share => (share === undefined ? "–" : percent(share));
