// The form of the Sentences view: what is asked, a field for the texts, a file to fill it, a button that asks or stops, and how far it is.

import {choice, h} from "../dom.js";
import {create as createStatus} from "../parts/status_line.js";
import {textOf} from "../parts/text_file.js";

const MAX_BYTES = 700_000;
const SUFFIXES = /** @type {[string, string][]} */ ([[".txt", "sentences, one a line"], [".tsv", ".tsv: tabs"], [".csv", ".csv: commas"], [".jsonl", ".jsonl: JSON Lines"], [".conllu", ".conllu: a treebank"]]);
/** What is asked of the texts: its name, and what the texts are. @type {Record<string, [string, string]>} */
const KINDS = {
  sentences: ["Each sentence", "Sentences, one a line; or a table whose first line names its columns: text, and maybe text_pair, answer, label"],
  pairs: ["Pairs", "Pairs, one a line: the right sentence, a tab or |, the other. The cats sleep. | The cats sleeps."],
  relations: ["Relations", "The contents of a treebank, .conllu"],
};

/** An example of each, to begin with. @type {Record<string, string>} */
const EXAMPLES = {
  sentences: `text\tanswer\n${["The keys to the cabinet\tare", "The key to the cabinet\tis", "The boxes on the shelf\tare", "The box on the shelves\tis"].map(line => line.replace("\t", " [MASK] on the table.\t")).join("\n")}`,
  pairs: "The keys to the cabinet are here. | The keys to the cabinet is here.\nThe author of the books writes well. | The author of the books write well.\nThe boys near the car are tired. | The boys near the car is tired.",
};

/** The texts, and what the results answer, which outlive a look at another view. */
const kept = {contents: "", suffix: ".txt", columns: ""};
let answered = "";

/**
 * Makes the form. `run` asks about the texts, and returns what to say at the end.
 * @param {any} context
 * @param {(given: typeof kept, asker: any) => Promise<string>} run
 */
export function createForm({api, announce, state, model}, run) {
  const asker = api.latest();
  const status = createStatus();
  const kind = choice("Ask about", Object.entries(KINDS).map(([name, [title]]) => [name, title]), "sentences", name => state.set({sentences_kind: name === "sentences" ? null : name}, {push: true}));
  const box = h("textarea", {rows: "5", "aria-label": "Sentences, or the contents of a file", spellcheck: "false", oninput: () => { kept.contents = box.value; compare(); }});
  const file = h("input", {type: "file", accept: `${SUFFIXES.map(([value]) => value).join(",")},text/plain`, "aria-label": "A file of sentences", onchange: () => open(file.files[0])});
  const suffix = h("select", {"aria-label": "Read as", onchange: () => { kept.suffix = suffix.value; compare(); }}, SUFFIXES.map(([value, text]) => h("option", {value}, text)));
  const columns = h("input", {size: "16", placeholder: "text=sentence1", spellcheck: "false", "aria-label": "Other names of columns", oninput: () => { kept.columns = columns.value; compare(); }});
  const ofTables = h("span", {class: "line"}, h("label", {class: "inline"}, "as ", suffix), h("label", {class: "inline"}, "columns ", columns));
  const bar = h("progress", {hidden: true, "aria-label": "Progress"});
  const button = h("button", {type: "button", class: "primary", onclick: () => (running ? asker.stop() : ask())}, "Read");
  const example = h("button", {type: "button", onclick: async () => {
    box.value = kept.contents = EXAMPLES[asked()] ?? await (await fetch("/static/examples.conllu")).text();
    ask();
  }}, "Example");
  let running = "";
  [box.value, suffix.value, columns.value] = [kept.contents, kept.suffix, kept.columns];

  /** @param {File | undefined} chosen */
  async function open(chosen) {
    const read = chosen && await textOf(chosen, MAX_BYTES, status);
    if (!chosen || read === null) return;
    box.value = kept.contents = read ?? "";
    suffix.value = kept.suffix = SUFFIXES.find(([value]) => chosen.name.toLowerCase().endsWith(value))?.[0] ?? ".txt";
    ask();
  }

  async function ask() {
    if (running) asker.stop();
    if (asked() === "sentences" && kept.suffix === ".txt" && isTable()) suffix.value = kept.suffix = ".tsv";
    const own = running = question();
    compare();
    button.textContent = "Stop";
    status.waiting("asking");
    try {
      const said = await run({...kept}, asker);
      answered = own;
      status.note(said);
      announce(said);
    } catch (error) {
      if (running !== own) return; // A newer question took its place.
      if (error instanceof DOMException) status.note("Stopped.");
      else status.error(error);
    }
    running = "";
    bar.hidden = true;
    button.textContent = "Read";
    compare();
  }

  /** True for the cells of a spreadsheet, whose first line names the column of the texts. */
  function isTable() {
    const names = kept.contents.split("\n", 1)[0].split("\t").map(name => name.trim());
    return names.length > 1 && names.includes(/\btext=([^,]+)/.exec(kept.columns)?.[1].trim() ?? "text");
  }

  const question = () => JSON.stringify([asked(), kept, model()?.name, model()?.weights_digest]);

  /** Greys results of other texts, or of another model. */
  function compare() {
    const old = results.textContent !== "" && (running || question()) !== answered;
    results.classList.toggle("stale", old);
    results.setAttribute("aria-busy", String(running !== ""));
    stale.hidden = !old || running !== "";
    example.hidden = box.value !== "";
  }

  /** What is asked now. */
  const asked = () => ((state.get().sentences_kind ?? "") in KINDS ? state.get().sentences_kind : "sentences");
  const results = h("div");
  const stale = h("p", {class: "soft", role: "status", hidden: true}, "What is grey below was read of other texts, or by another model: Read asks anew.");
  return {
    results,
    element: h("section", {class: "panel sentences-form", "aria-label": "Many sentences"}, h("header", null, h("h2", null, "Many sentences"), kind.element), box, h("div", {class: "line"}, file, ofTables, button, example), bar, status.element, stale),
    stop: () => asker.stop(),
    asked,
    error: status.error,
    /** Shows what is asked, and whether the results, which are drawn, answer it. */
    update() {
      kind.set(asked());
      box.placeholder = KINDS[asked()][1];
      ofTables.hidden = asked() !== "sentences";
      compare();
    },
    /** Says how far it is: from the first time on, results are those of the question. @param {number} done @param {number | null} total */
    progress(done, total) {
      answered = running;
      compare();
      bar.hidden = !total;
      bar.max = total || 1;
      bar.value = done;
      status.waiting(`${done}${total ? ` of ${total}` : ""}`);
    },
  };
}
