// The part of the Sentences view for relations: which head attends from a verb to its subject, and how often?

import {h, replace} from "../dom.js";
import {percent} from "../format.js";
import {means} from "../numbers.js";
import {command, copyButton, pythonLines} from "../parts/copying.js";
import {create as createGrid} from "../parts/head_grid.js";
import {findLink} from "../parts/units.js";
import {create as createPictures} from "../parts/pictures.js";

/** The numbers of the table's columns, by their keys in `NUMBERS`. */
const MEANT = [null, null, null, "found", "accuracy", "offset"];

/** What is known, which outlives a look at another view. @type {{relations: any[], texts: number, left_out: number}} */
let kept = {relations: [], texts: 0, left_out: 0};

/** Makes the part. @param {any} context @param {any} form */
export function createRelations(context, form) {
  const {state} = context;
  const grid = createGrid((places, first) => { if (places.length === 1) state.set({at: places[0]}, {push: first}); }, () => {});
  const note = h("p", {class: "soft", ...means("found")});
  const title = h("h2");
  const elsewhere = h("span");
  const table = h("div", {class: "table-scroll", tabindex: "0", role: "region", "aria-label": "Relations"});
  const panels = h("div", {class: "sentences-panels", hidden: true},
    h("section", {class: "panel", "aria-label": "Heads of the relation"}, h("header", null, title, elsewhere), note, h("div", {class: "grid-scroll"}, grid.element)),
    h("section", {class: "panel", "aria-label": "Best heads"}, h("header", null, h("h2", null, "The best head of each relation")), table));
  const pictures = createPictures(() => ({drawings: [{label: "Heads", svg: grid.toSvg}], view: panels, labels: {name: "bertscope-relations", caption: `${chosen()?.relation ?? ""}, ${kept.texts} sentences`, commands: ["relations"]}}), form.error);
  const element = h("div", null, panels, h("footer", {class: "page-footer"}, h("span", {class: "soft status-line"}, "A link holds what is chosen, not the sentences."),
    copyButton("Copy command", () => command("relations", null, "treebank.conllu", ...(state.get().model ? ["--model", state.get().model] : [])), context.announce),
    copyButton("Copy Python", () => pythonLines("client.score_relations(bertscope_workbench.read_conllu(\"treebank.conllu\")).best_heads()"), context.announce), pictures.element));

  /** @param {{contents: string}} given @param {any} asker */
  async function score({contents}, asker) {
    kept = {relations: [], texts: 0, left_out: 0};
    draw();
    state.set({relation: null, at: null}, {push: false}); // Each relation is shown by its best head.
    kept = await asker.ask("relations", {conllu: contents, model: state.get().model ?? ""}, {onEvent: (/** @type {any} */ event) => {
      if (event.progress) form.progress(event.progress.done, event.progress.total);
    }});
    draw();
    return `${kept.texts} sentences are scored${kept.left_out ? `; ${kept.left_out} can't be read` : ""}.`;
  }

  function chosen() {
    return kept.relations.find(each => each.relation === state.get().relation) ?? kept.relations[0];
  }

  function draw() {
    const one = chosen();
    panels.hidden = !one;
    if (!one) return;
    const at = state.get().at ?? `${one.layer}.${one.head}`;
    grid.update({layers: one.accuracies.length, heads: one.accuracies[0].length, show: /** @type {"moved"} */ ("moved"), pictures: null, moved: one.accuracies, worth: new Map(), changes: new Map(), at, theme: context.theme(), said: percent, described: context.described()});
    const [layer, head] = at.split(".").map(Number);
    const share = one.accuracies[layer]?.[head];
    title.textContent = `${one.relation}: which head finds the ${one.direction === "forward" ? "dependent" : "governor"}`;
    const how = one.chosen_on === "same" ? "chosen on the same sentences, so that it finds less in others"
      : `of ${one.pairs} pairs in every second sentence; chosen on the others, where it finds ${percent(one.chosen_accuracy)}`;
    replace(elsewhere, findLink(state, {kind: "head", layer, number: head}));
    note.textContent = `${share === undefined ? "" : `Layer ${layer}, head ${head}: ${percent(share)} of all pairs. `}Best: layer ${one.layer}, head ${one.head}, ${percent(one.accuracy)} (${how}); `
      + `the word at distance ${one.offset} is it in ${percent(one.offset_accuracy)}${one.chance === null ? "" : `; the head finds other words as far away in ${percent(one.chance)}`}.`;
    const heads = ["Relation", "Pairs", "Head", "Found", "95 %", "By distance"];
    replace(table, h("table", null, h("thead", null, h("tr", null, heads.map((text, index) => h("th", {scope: "col", class: index && "number", ...(MEANT[index] && means(MEANT[index]))}, text)))),
      h("tbody", null, kept.relations.map(each => h("tr", null,
        h("th", {scope: "row"}, h("button", {type: "button", class: "chip", "aria-pressed": each === one, onclick: () => state.set({relation: each.relation, at: null})}, each.relation)),
        [each.pairs, `${each.layer}:${each.head}`, percent(each.accuracy), each.interval ? `${(100 * each.interval[0]).toFixed(1)} to ${percent(each.interval[1])}` : "", `${percent(each.offset_accuracy)} (${each.offset})`]
          .map(text => h("td", {class: "number"}, text)))))));
  }

  return {element, update: draw, ask: score};
}
