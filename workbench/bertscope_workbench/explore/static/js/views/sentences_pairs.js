// The part of the Sentences view for minimal pairs: does the model find the right sentence of two likelier?

import {AskError} from "../api.js";
import {h, replace} from "../dom.js";
import {percent} from "../format.js";
import {means} from "../numbers.js";
import {command, copyButton, pythonLines} from "../parts/copying.js";

const MAX_PAIRS = 1000;
const NAMES = /** @type {Record<string, string>} */ ({right: "right", tie: "tie", wrong: "wrong"});

/** The pairs and what is known of them; they outlive a look at another view. @type {{pairs: [string, string][], rows: any[], accuracy: any}} */
let kept = {pairs: [], rows: [], accuracy: null};

/** Makes the part. @param {any} context @param {any} form */
export function createPairs(context, form) {
  const {state} = context;
  const results = h("section", {class: "panel pairs-compared", "aria-label": "Pairs compared", hidden: true});
  const element = h("div", null, results, h("footer", {class: "page-footer"}, h("span", {class: "soft status-line"}, "A link holds what is chosen, not the sentences; pairs.tsv needs the columns good and bad."),
    copyButton("Copy command", () => command("score pairs", "pairs.tsv", ...(state.get().model ? ["--model", state.get().model] : [])), context.announce),
    copyButton("Copy Python", () => pythonLines("client.compare_texts(bertscope_workbench.read_sets(\"pairs.tsv\")).accuracy()"), context.announce)));

  /** @param {{contents: string}} given @param {any} asker */
  async function compare({contents}, asker) {
    const lines = contents.split("\n").filter(line => line.trim()).map(line => line.split(line.includes("\t") ? "\t" : "|").map(part => part.trim()));
    const named = ["good", "bad"].map(name => lines[0]?.indexOf(name) ?? -1); // Columns of a table with a header.
    const pairs = named.includes(-1) ? lines : lines.slice(1).map(cells => named.map(column => cells[column] ?? ""));
    const broken = pairs.findIndex(pair => pair.length !== 2 || !pair[0] || !pair[1]);
    if (!pairs.length || broken >= 0) throw refused(`${pairs.length ? `Line ${broken + 1 + lines.length - pairs.length} is no pair` : "There are no pairs"}: write the right sentence, a tab or |, and the other one.`);
    if (pairs.length > MAX_PAIRS) throw refused(`There are ${pairs.length} pairs; the page compares at most ${MAX_PAIRS}.`);
    kept = {pairs: /** @type {[string, string][]} */ (pairs), rows: [], accuracy: null};
    let left = 0;
    const body = {right: pairs.map(([right]) => right), wrong: pairs.map(([, wrong]) => wrong), model: state.get().model ?? ""};
    await asker.ask("pairs", body, {onEvent: (/** @type {any} */ event) => {
      if (event.accuracy) {
        kept.accuracy = event.accuracy;
        form.progress(kept.rows.length + left, pairs.length);
        draw();
      } else if (event.left_out) left++;
      else kept.rows.push(event);
    }});
    return `${kept.rows.length} of ${pairs.length} pairs are compared${left ? `; ${left} were left out` : ""}.`;
  }

  function draw() {
    results.hidden = !kept.accuracy;
    if (!kept.accuracy) return;
    const {accuracy, interval, right, tied, wrong} = kept.accuracy;
    const rows = [...kept.rows].sort((a, b) => a.scores[0] - a.scores[1] - (b.scores[0] - b.scores[1]));
    replace(results, h("header", null, h("h2", null, "The right sentence is likelier")),
      h("p", {class: "headline", ...means("accuracy")}, h("strong", null, percent(accuracy)), ` of ${right + tied + wrong} pairs (95 %: ${percent(interval[0])} to ${percent(interval[1])}): ${right} right, ${tied} tied, ${wrong} wrong`),
      h("div", {class: "table-scroll", tabindex: "0", role: "region", "aria-label": "Pairs"}, h("table", null,
        h("thead", null, h("tr", null, ["Right sentence", "Other sentence", "Difference, nats", "Outcome"].map((text, index) => h("th", {scope: "col", class: index === 2 && "number", ...(index === 2 && means("log_likelihood"))}, text)))),
        h("tbody", null, rows.map(({pair, scores, outcome}) => h("tr", null, kept.pairs[pair].map(text => h("td", null, toExplore(text))),
          h("td", {class: "number"}, signed(scores[0] - scores[1])), h("td", {class: outcome === "wrong" && "caveat"}, NAMES[outcome] ?? outcome)))))));
  }

  /** @param {string} message */
  const refused = message => new AskError({status: "INVALID_ARGUMENT", message});
  /** @param {number} value */
  const signed = value => `${value < 0 ? "−" : ""}${Math.abs(value).toFixed(2)}`;
  /** @param {string} text */
  const toExplore = text => h("a", {href: state.link({view: "explore", text}).slice(window.location.origin.length + 1)}, text);

  return {element, update: draw, ask: compare};
}
