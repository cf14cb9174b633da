// Help for what has the focus: `?` or F1 opens it. Regions of each view are named by their labels; numbers explain themselves.

import {h, replace} from "./dom.js";
import {NUMBERS} from "./numbers.js";
import {VIEWS} from "./views/index.js";

/** @typedef {{text: string, keys?: [string, string][]}} Help */

const HEADS = {text: "One square for each head, layers down. A click shows a head.", keys: /** @type {[string, string][]} */ ([["arrows, Home, End", "go from head to head"], ["Enter, space", "do what a click does"]])};
const CELLS = /** @type {[string, string][]} */ ([["arrows, Home, End, Page Up, Page Down", "go from cell to cell"]]);

/** Help by view, then by the label of a region of it; "" is the view itself. @type {Record<string, Record<string, Help>>} */
export const HELP = {
  explore: {
    "": {text: "A sentence, what the model predicts for it, its heads, and what happens to all of it when a head is changed. What is shown is in the address: the back button undoes, and a link is a state.",
      keys: [["?, F1", "help for what has the focus"], ["Alt+M in the sentence", "masks the word at the cursor"]]},
    Predictions: {text: "The ten likeliest words for the mask. After a change, a tick marks where each stood before. A click on a word explains it, where words is on.",
      keys: [["Enter at a word", "explains it"], ["Shift+Enter", "what speaks against it"]]},
    Heads: {text: "Each square is a head, layers down. Maps draws its attention, Moved how much of it went elsewhere with the changes, Worth how far predictions move without the head. A click, or a drag, does what the brush says; the same again takes it back. The number of a layer or a column takes all its heads.",
      keys: [["arrows, Home, End", "go from head to head, and to the numbers of layers and columns"], ["Enter, space", "do what a click does"], ["L, X, F, S, R", "choose the brush: looks, silences, flattens, scales, averages"], ["Escape", "back to looks"]]},
    "Attention of one head": {text: "Where each token looks, as lines or as a matrix. At the left is the token that looks, at the right what it looks at; a thicker line is more attention.",
      keys: [["arrows", "choose the token that is looked from"], ["M", "masks the word of that token"]]},
    Words: {text: "What each word adds to the score of a prediction: a blue line under a word adds, an orange one over it takes away. Quick numbers first, Shapley values as they are computed.",
      keys: [["arrows, Home, End", "go from word to word"], ["Enter, space", "mask the word, or bring it back"]]},
  },
  compare: {
    "": {text: "One sentence in two models, or in one model with and without the changes made under Explore."},
    "Predictions of both": {text: "The words that either model finds likely, paired: the upper bar is the first model, the lower one the second."},
    "Where their attention differs": HEADS,
    "Both maps of one head": {text: "The attention of the same head in both: row attends to column.", keys: [["arrows in a matrix", "choose the token that is looked from"]]},
  },
  sentences: {
    "": {text: "Up to 1,000 sentences as a table: what the model says of each, and what its heads do there; pairs of which one is right; linked words of a treebank."},
    "Many sentences": {text: "Paste sentences, one a line, or a table, or open a file, and press Read. They stay on this machine and its server."},
    Heads: {...HEADS, text: "The mean over the rows that are chosen, or else shown, one square for each head, layers down. A click gives the head a column of the table, the sentences where it does it most on top."},
    "Kinds of maps": {text: "How many maps of each layer are of each class, over the same rows."},
    Rows: {text: "One row a sentence. A heading sorts, the fields below it filter. A sentence opens in Explore; an edited copy stays below its original, with what changed. The slice, what is chosen or else shown, opens in other views or is saved for commands.",
      keys: [["Enter at a heading", "sorts by it, again the other way round, again not"], ["Enter in an edited copy", "asks the model about it"], ["Escape", "leaves the copy"]]},
    "Pairs compared": {text: "Each pair, the worst ones on top. A sentence is a link to Explore."},
    "Heads of the relation": HEADS,
    "Best heads": {text: "For each relation the head that finds most linked words, beside what a fixed distance finds. A relation shows all heads."},
  },
  find: {
    "": {text: "Where else does a head, a neuron or a word in context do this? The words of many sentences at which it is largest, and some from each tenth of its values, so that not only the extremes are seen."},
    Unit: {text: "What is looked for: a head by the attention of a word to another one, a neuron by its activation, the words whose states are nearest to a word in a sentence, a class of a probe or a sparse code by its file. Heads are coloured by their mean value.", keys: [["arrows, Home, End", "go from head to head"], ["Enter, space", "look for that head"]]},
    "Sentences to look in": {text: "Those that ship with the page, until others are opened or written. They go to the server that the page asks, and nowhere else."},
    "Contexts of the unit": {text: "Each place with its sentence: words are coloured by their values, the word of the place is framed, and what it attends to is underlined. Headings sort, fields filter; a sentence opens in Explore with that head."},
  },
  layers: {
    "": {text: "What the model would predict if it stopped at a layer, and curves of probes from files."},
    "Predictions by layer": {text: "Layers down, the last on top, tokens across; in each cell the word that the masked-LM head reads in that state.", keys: CELLS},
    "Likeliest words of the cell": {text: "The five likeliest words of the chosen cell."},
    Probes: {text: "Files that bertscope probe wrote: accuracy by layer, with intervals and the control task."},
  },
  trace: {
    "": {text: "Where does an answer come from? Each place of the clean sentence is put into the corrupted one: how much of the answer comes back?"},
    "Places that carry the answer": {text: "Layers down, the last on top, tokens across. A cell that is dragged to another sentence is put into it.", keys: CELLS},
    "The model with one place patched": {text: "What the model says with the chosen place patched alone; a mark is what it said before."},
  },
  models: {"": {text: "The loaded models; for callers who may manage models, forms to load, compress and unload them."}},
};

/** Makes the help. @param {any} state @param {HTMLButtonElement} button @param {() => void} tour Starts the tour. */
export function createHelp(state, button, tour) {
  const body = h("div", {class: "help-body"});
  const dialog = h("dialog", {class: "help", "aria-labelledby": "help-title"}, body,
    h("div", {class: "help-buttons"}, h("button", {type: "button", onclick: () => { dialog.close(); tour(); }}, "Take the tour"), h("button", {type: "button", class: "primary", autofocus: true, onclick: () => dialog.close()}, "Close")));
  document.body.append(dialog);
  /** The element in the view that had the focus last. @type {Element | null} */
  let last = null;
  const view = /** @type {HTMLElement} */ (document.querySelector("#view"));
  view.addEventListener("focusin", event => { last = /** @type {Element} */ (event.target); });
  button.addEventListener("click", () => open(last));
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.key !== "F1" && (event.key !== "?" || typing(event.target)))) return;
    event.preventDefault();
    open(document.activeElement);
  });

  /** @param {Element | null} focused */
  function open(focused) {
    if (dialog.open) return;
    const name = state.get().view;
    const known = HELP[name] ?? {};
    const region = regionOf(focused, known);
    const {text, keys} = known[region?.getAttribute("aria-label") ?? ""] ?? {text: "Choose a view above."};
    const shown = /** @type {HTMLElement[]} */ ([...(region ?? view).querySelectorAll("[data-number]")]).filter(each => each.getClientRects().length);
    const numbers = new Map(shown.map(each => [each.dataset.number ?? "", NUMBERS[each.dataset.number ?? ""] ?? {name: each.textContent, unit: "", meaning: each.title}]));
    replace(body, h("h2", {id: "help-title"}, region?.getAttribute("aria-label") ?? VIEWS[name]?.title ?? "bertscope"), h("p", null, text),
      numbers.size > 0 && [h("h3", null, "Numbers here"), h("dl", null, [...numbers.values()].map(({name, unit, meaning}) => [h("dt", null, name, unit && h("span", {class: "soft"}, `, ${unit}`)), h("dd", null, meaning)]))],
      keys && [h("h3", null, "Keys"), h("dl", null, keys.map(([key, does]) => [h("dt", null, key), h("dd", null, does)]))]);
    dialog.showModal();
  }
}

/** The nearest region around an element that has help of its own. @param {Element | null} element @param {Record<string, Help>} known */
function regionOf(element, known) {
  let region = element?.isConnected ? element.closest("[aria-label]") : null;
  while (region && !known[region.getAttribute("aria-label") ?? ""]) region = region.parentElement?.closest("[aria-label]") ?? null;
  return region;
}

/** True where a question mark is a letter that is written. @param {EventTarget | null} target */
const typing = target => target instanceof HTMLElement && target.matches("textarea, select, input:not([type=radio], [type=checkbox], [type=range], [type=file])");
