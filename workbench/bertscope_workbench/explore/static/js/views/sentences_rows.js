// The part of the Sentences view that asks about each of many sentences: a table of what the model says of each, edited copies
// beside their originals, and what heads do in those that are shown.

import {h, replace} from "../dom.js";
import {said} from "../fields.js";
import {percent} from "../format.js";
import {linkButton} from "../parts/copying.js";
import {create as createTable, filtersOf, typeOf} from "../parts/data_table.js";
import {create as createPictures} from "../parts/pictures.js";
import {createCopies} from "./sentences_copies.js";
import {createHeads} from "./sentences_heads.js";
import {answer, asked, goldOf, known, outcome, rowOf, textOf} from "./sentences_row.js";
import {createSlice} from "./sentences_slice.js";

const DRAW_MILLISECONDS = 150;

/** @typedef {import("./sentences_row.js").Row} Row */

/** The rows, which outlive a look at another view. @type {{rows: Row[], model: string, left: string[], cut: boolean, of: string}} */
let kept = {rows: [], model: "", left: [], cut: false, of: ""};

/** Makes the part. @param {any} context @param {any} form */
export function createRows(context, form) {
  const {state} = context;
  const all = h("input", {type: "checkbox", "aria-label": "Choose all rows that are shown", onchange: () => {
    for (const row of table.kept()) row.chosen = all.checked;
    draw();
  }});
  const table = createTable("Sentences", chosen => state.set({...(chosen.sort !== undefined && {table_sort: chosen.sort}), ...(chosen.filters && {table_filters: Object.keys(chosen.filters).length ? JSON.stringify(chosen.filters) : null})},
    {push: chosen.sort !== undefined}));
  const copies = createCopies(context, {make: (original, fields) => rowOf(fields, original), model: () => kept.model, draw});
  const slice = createSlice(context);
  const heads = createHeads(context);
  const left = h("details", {hidden: true}, h("summary"), h("ul"));
  const panel = h("section", {class: "panel table-panel", "aria-label": "Rows", hidden: true}, slice.elements, left, copies.status, table.element);
  const view = h("div", null, heads.element, panel);
  const pictures = createPictures(() => ({drawings: heads.drawings, view, labels: {name: "bertscope-sentences", caption: `${kept.model}, ${kept.rows.length} sentences: ${heads.caption()}`, commands: ["attention describe", "score"]}}), form.error);
  const element = h("div", null, view, h("footer", {class: "page-footer"}, h("span", {class: "soft status-line"}, "A link holds the order and the filters, not the sentences; slice.jsonl is what Save slice writes."),
    linkButton(context), slice.footer(heads.shown), pictures.element));

  /** @param {{contents: string, suffix: string, columns: string}} given @param {any} asker */
  async function read(given, asker) {
    const of = JSON.stringify(given);
    if (of !== kept.of) { // Else another model is asked, and copies stay.
      const file = await asker.ask("table", {...given, columns: columnsOf(given.columns)});
      kept = {...kept, of, rows: file.rows.map((/** @type {any} */ row) => rowOf(row)), left: file.left_out, cut: file.cut};
    }
    kept.model = context.model()?.name.replace("models/", "") ?? "";
    const rows = kept.rows.flatMap(row => [row, ...row.copies]);
    for (const row of rows) answer(row, null);
    draw();
    let done = 0;
    let rejected = 0;
    let drawn = 0;
    form.progress(0, rows.length);
    try {
      await asker.ask("rows", {rows: rows.map(asked), model: kept.model}, {onEvent: (/** @type {any} */ event) => {
        answer(rows[event.row], event);
        done++;
        if (event.left_out) rejected++;
        if (performance.now() - drawn < DRAW_MILLISECONDS) return;
        drawn = performance.now();
        form.progress(done, rows.length);
        draw();
      }});
    } finally {
      draw();
    }
    return `${done - rejected} of ${rows.length} rows are read${rejected ? `; the model rejected ${rejected}` : ""}${kept.cut ? "; the file has more, of which the page reads none" : ""}.`;
  }

  /** @returns {import("../parts/data_table.js").Column[]} */
  function columnsShown() {
    const rows = kept.rows.flatMap(row => [row, ...row.copies]);
    const some = (/** @type {(row: Row) => any} */ has) => rows.some(has);
    const gold = some(row => goldOf(row) !== "");
    const names = [...new Set(kept.rows.flatMap(row => Object.keys(row.more ?? {})))];
    return [
      {key: "choose", title: "Choose", type: "own", head: all, cell: chooser},
      {key: "line", title: "Line", meaning: "Number of the line in the file, from 1", type: "number", value: row => row.line},
      {key: "text", title: "Sentence", meaning: "A link opens it in Explore", type: "text", value: textOf, cell: sentence},
      ...(gold ? [{key: "gold", title: "Gold", meaning: "The file's word for the first mask, or its label", type: typeOf(kept.rows.map(goldOf)), value: goldOf}] : []),
      ...(some(row => row.found?.predictions) ? [
        {key: "predicted", title: "Prediction", meaning: "The likeliest word of the first mask, or label, and the next two", type: "text", value: (/** @type {Row} */ row) => row.found?.predictions?.[0][0], cell: predictions},
        {key: "probability", title: "P", number: "first", type: "number", value: (/** @type {Row} */ row) => row.found?.predictions?.[0][1], cell: (/** @type {Row} */ row) => changed(row, each => each.predictions?.[0][1])}] : []),
      ...(some(row => outcome(row) !== null) ? [{key: "outcome", title: "Outcome", meaning: "Whether the first prediction is the gold word or label; rejected by the model", type: /** @type {"kind"} */ ("kind"), value: outcome}] : []),
      ...(some(row => known(row.found?.loss)) ? [
        {key: "loss", title: "Loss", number: "loss", type: "number", value: (/** @type {Row} */ row) => row.found?.loss, cell: (/** @type {Row} */ row) => changed(row, each => each.loss)}] : []),
      ...(some(row => known(row.found?.score)) ? [{key: "score", title: "Score", number: "score", type: "number", value: (/** @type {Row} */ row) => row.found?.score, cell: (/** @type {Row} */ row) => changed(row, each => each.score)}] : []),
      ...(some(row => row.found?.patterns) ? [heads.column()] : []),
      {key: "tokens", title: "Tokens", number: "tokens", type: "number", value: row => row.found?.tokens},
      ...names.map(name => ({key: `more.${name}`, title: name, meaning: "A column of the file", type: typeOf(kept.rows.map(row => row.more?.[name])), value: (/** @type {Row} */ row) => row.more?.[name]})),
    ];
  }

  function draw() {
    panel.hidden = heads.element.hidden = !kept.rows.length;
    if (!kept.rows.length) return;
    table.update({rows: kept.rows, columns: columnsShown(), sort: state.get().table_sort ?? "", filters: filtersOf(state.get().table_filters),
      stamp: row => JSON.stringify([row.text, row.text_pair, row.times, row.of?.times, row.chosen, row.editing, state.link()])});
    const now = table.kept().filter(row => !row.editing);
    const chosen = now.filter(row => row.chosen);
    all.checked = now.length > 0 && chosen.length === now.length;
    all.indeterminate = chosen.length > 0 && !all.checked;
    const shown = chosen.length ? chosen : now;
    heads.update(shown);
    slice.update(shown, `${chosen.length ? "chosen" : "shown"}${kept.model && `, read by ${kept.model}`}`);
    left.hidden = !kept.left.length;
    left.querySelector("summary").textContent = `${kept.left.length} ${kept.left.length === 1 ? "line" : "lines"} of the file can't be read`;
    replace(left.querySelector("ul"), kept.left.map(text => h("li", null, said(text))));
  }

  /** @param {Row} row */
  function chooser(row) {
    return h("input", {type: "checkbox", checked: row.chosen, "aria-label": `Choose ${textOf(row)}`, onchange: (/** @type {any} */ event) => { row.chosen = event.target.checked; draw(); }});
  }

  /** @param {Row} row */
  function sentence(row) {
    if (row.editing) return copies.editor(row);
    const text = row.text_pair ? textOf(row) : h("a", {href: state.link({view: "explore", text: row.text})}, row.of ? marked(row.text, row.of.text) : row.text);
    return [row.of && h("span", {class: "soft"}, "edited: "), text, row.found?.left_out && h("p", {class: "wrong"}, said(row.found.left_out)), copies.buttons(row)];
  }

  return {element, update: draw, ask: read, stop: copies.stop};
}

/** A text, marked where it isn't another one: between the words that begin both and those that end both. @param {string} text @param {string} other */
function marked(text, other) {
  const [now, before] = [text, other].map(each => each.split(/(?<= )/));
  const least = Math.min(now.length, before.length);
  let first = 0;
  while (first < least && now[first] === before[first]) first++;
  let last = 0;
  while (last < least - first && now[now.length - 1 - last] === before[before.length - 1 - last]) last++;
  const middle = now.slice(first, now.length - last).join("");
  return [now.slice(0, first).join(""), middle && h("mark", null, middle.trimEnd()), middle.endsWith(" ") && " ", now.slice(now.length - last).join("")];
}

/** @param {Row} row */
function predictions({found, of}) {
  if (!found?.predictions) return null;
  const [[first], ...others] = found.predictions;
  const before = of?.found?.predictions?.[0][0];
  return [h("strong", null, first), others.length > 0 && h("span", {class: "soft"}, others.map((/** @type {[string, number]} */ [word, share]) => h("span", {class: "next"}, ` ${word} ${percent(share)}`))),
    before && before !== first && h("span", {class: "change"}, ` was ${before}`)];
}

/** A number, and of a copy how far it is from its original's. @param {Row} row @param {(found: any) => any} value */
function changed(row, value) {
  const [now, before] = [row.found, row.of?.found].map(found => found && value(found));
  if (!known(now)) return null;
  return [fixed(now), known(before) && h("span", {class: "change"}, ` ${now < before ? "" : "+"}${fixed(now - before)}`)];
}

/** @param {number} number */
const fixed = number => number.toFixed(3).replace("-", "−");

/** @param {string} text */
function columnsOf(text) {
  return Object.fromEntries(text.split(",").filter(part => part.trim()).map(part => part.split("=").map(each => each.trim())).map(([name, column]) => [name, column ?? ""]));
}
