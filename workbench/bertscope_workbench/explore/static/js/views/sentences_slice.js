// What becomes of the Sentences view's slice: the rows that are chosen, or else those that are shown.

import {h} from "../dom.js";
import {percent} from "../format.js";
import {command, copyButton, pythonLines} from "../parts/copying.js";
import {saveText} from "../parts/pictures.js";
import {known} from "./sentences_row.js";

const MASK = "[MASK]";
const FILE = "slice.jsonl";
const Z = 1.96; // Two-sided, 95 %.

/** Makes the part. @param {any} context */
export function createSlice(context) {
  const {state, openWith} = context;
  const count = h("h2");
  /** @type {import("./sentences_row.js").Row[]} */
  let rows = [];
  const single = () => rows.filter(row => !row.text_pair).map(row => row.text);
  const masked = () => single().filter(text => text.includes(MASK));
  const filled = () => rows.filter(row => !row.text_pair && row.text.includes(MASK));

  const worth = h("button", {type: "button", onclick: () => {
    const [text, ...further] = masked();
    openWith({view: "explore", text, show: "worth"}, further);
  }}, "Measure heads");
  const find = h("button", {type: "button", onclick: () => openWith({view: "find"}, single())}, "Find in these");
  const trace = h("button", {type: "button", onclick: () => {
    const [clean, corrupted] = filled();
    const [answer, against] = [clean, corrupted].map(wordOf);
    state.set({view: "trace", text: clean.text, traceother: corrupted.text, traceanswer: answer, traceagainst: against === answer ? "" : against});
  }}, "Trace");
  const save = h("button", {type: "button", onclick: () => saveText(rows.map(written).join(""), FILE)}, "Save slice");
  const study = h("button", {type: "button", onclick: () => saveText(studyOf(), "slice.toml")}, "Save as study");
  const sweep = copyButton("Copy sweep command", () => command("sweep", null, objective(), FILE, ...chosenModel()), context.announce);
  const ask = copyButton("Copy study command", () => command("study", "slice.toml", "--data", ".", ...chosenModel()), context.announce);
  const summary = h("p", {class: "table-summary"});
  const labelled = () => rows.some(row => row.found) && !rows.some(row => known(row.found?.score));
  /** What copies the command and the Python of the slice, and of what heads do in it. @param {() => string} statistic */
  const footer = statistic => [
    copyButton("Copy command", () => command(labelled() ? "classify" : "score", null, "--texts", FILE, ...chosenModel()), context.announce),
    copyButton("Copy Python", () => pythonLines(`client.${labelled() ? "classify" : "score_texts"}(bertscope_workbench.read_inputs("${FILE}")).to_pandas()`), context.announce),
    copyButton("Copy command for heads", () => command("attention describe", null, "--texts", FILE, ...chosenModel()), context.announce),
    copyButton("Copy Python for heads", () => pythonLines(`client.describe_attention(bertscope_workbench.read_inputs("${FILE}")).mean("${statistic()}")`), context.announce)];

  const chosenModel = () => (state.get().model ? ["--model", state.get().model] : []);

  /** The option of a sweep for what all rows have. */
  function objective() {
    if (rows.every(row => row.answers.length)) return "--prompts";
    if (rows.every(row => row.label)) return "--labelled";
    return rows.every(row => row.text.includes(MASK)) ? "--divergence" : "--texts";
  }

  /** @param {HTMLButtonElement} button @param {string} reason Why it can't be pressed; "" if it can. */
  function need(button, reason) {
    button.disabled = reason !== "";
    button.title = reason;
  }

  return {
    elements: [h("header", null, count, worth, find, trace, save, sweep, study, ask), summary],
    footer,
    /** @param {import("./sentences_row.js").Row[]} next @param {string} how */
    update(next, how) {
      rows = next;
      count.textContent = `Slice: ${rows.length} ${rows.length === 1 ? "row" : "rows"} ${how}`;
      summary.textContent = [share(rows), mean(rows, "loss", "nats"), mean(rows, "score", "nats per piece")].filter(Boolean).join("; ");
      need(find, single().length ? "" : "Needs a sentence that is no pair");
      need(worth, masked().length ? "" : "Needs a sentence with [MASK]");
      need(trace, filled().length === 2 && rows.length === 2 ? "" : "Needs two rows with [MASK]: choose a row and its edited copy");
      need(save, rows.length ? "" : "No row is shown");
      need(sweep, rows.length ? "" : "No row is shown");
      for (const button of [study, ask]) need(button, rows.length && rows.every(row => row.answers.length) ? "" : "Needs a gold word in every row");
    },
  };
}

/** How many rows the model gets right, with Wilson's interval. @param {import("./sentences_row.js").Row[]} rows */
function share(rows) {
  const outcomes = rows.map(row => row.found?.right).filter(known);
  const all = outcomes.length;
  if (!all) return "";
  const right = outcomes.filter(Boolean).length;
  const part = right / all;
  const middle = (part + Z * Z / (2 * all)) / (1 + Z * Z / all);
  const half = Z / (1 + Z * Z / all) * Math.sqrt(part * (1 - part) / all + Z * Z / (4 * all * all));
  return `${right} of ${all} right, ${percent(part)} (95 %: ${percent(Math.max(0, middle - half))} to ${percent(Math.min(1, middle + half))})`;
}

/** @param {import("./sentences_row.js").Row[]} rows @param {string} name @param {string} unit */
function mean(rows, name, unit) {
  const values = rows.map(row => row.found?.[name]).filter(known);
  return values.length ? `mean ${name} ${(values.reduce((sum, value) => sum + value, 0) / values.length).toFixed(3).replace("-", "−")} ${unit}` : "";
}

/** The word that a trace follows: the gold one, or else the likeliest. @param {import("./sentences_row.js").Row} row */
const wordOf = ({answers, found}) => answers[0] ?? found?.predictions?.[0][0] ?? "";

/** A row as a line of a file that commands read, with what the model said. @param {import("./sentences_row.js").Row} row */
function written({text, text_pair, answers, label, more, found}) {
  const {row, left_out, predictions, statistics, patterns, ...numbers} = found ?? {};
  const gold = {...(answers.length && {answer: answers}), ...(label && {label: /^\d+$/.test(label) ? Number(label) : label})};
  return JSON.stringify({...more, text, ...(text_pair && {text_pair}), ...gold, predicted: predictions?.[0][0], probability: predictions?.[0][1], ...numbers}) + "\n";
}

/** The definition of a study of the saved slice. */
const studyOf = () => `title = "A slice of sentences"
paper = "Nobody's yet"

[[claim]]
name = "slice"
title = "Gold words of the slice"
claim = "Does the model know the word?"
explained = "The rank of the gold word among the whole vocabulary."

[claim.reproduction]
reader = "table"
files = ["${FILE}"]
ask = "blank"
metrics = ["p@1", "p@10", "mrr"]
`;
