// The sentences that the Find view looks in: those that ship, until a file is opened.

import {h} from "../dom.js";
import {create as createStatus} from "../parts/status_line.js";
import {textOf} from "../parts/text_file.js";

const MAX_BYTES = 16_000_000;
const SHIPPED = "sentences that ship with the page";

const GIVEN = "sentences of another view";
const PASTED = "pasted sentences";

/** @typedef {{number: number, name: string, file: string, texts: string[], tags: (Map<number, string> | null)[], written: string[]}} Corpus
 * `number` is of this corpus alone; `file` is its name in commands; `tags` are by the first code point of a word; `written` are all tags as a question takes them. */

/** The sentences, which outlive a look at another view. @type {Corpus} */
let kept = {number: 0, name: "", file: "sentences.txt", texts: [], tags: [], written: []};

/** True if a column of tags has more than gaps. @param {Corpus} corpus */
export const mostlyTagged = ({tags}) => 2 * tags.filter(Boolean).length > tags.length;

/** Makes the part. @param {any} context @param {() => void} changed Called when there are other sentences. */
export function createCorpus(context, changed) {
  const asker = context.api.latest();
  const status = createStatus();
  const file = h("input", {type: "file", accept: ".txt,.conllu,text/plain", "aria-label": "A file of sentences", onchange: () => open(file.files[0])});
  const box = h("textarea", {rows: "3", "aria-label": "Sentences to look in, one a line", placeholder: "or write sentences here, one a line", spellcheck: "false"});
  const element = h("section", {class: "panel find-corpus", "aria-label": "Sentences to look in"}, h("header", null, h("h2", null, "Sentences")), status.element,
    h("label", null, h("span", {class: "soft"}, "A text file, one sentence a line, or a treebank (.conllu), whose tags are shown"), file), box, h("button", {type: "button", onclick: () => { if (box.value.trim()) read(box.value, ".txt", PASTED); }}, "Look in these"));

  /** @param {File | undefined} chosen */
  async function open(chosen) {
    if (!chosen) return;
    const contents = await textOf(chosen, MAX_BYTES, status);
    if (contents !== null) await read(contents, chosen.name.endsWith(".conllu") ? ".conllu" : ".txt", chosen.name, chosen.name);
  }

  /** @param {string} contents Empty for what ships. @param {string} suffix @param {string} name @param {string} [file] Its name in commands. */
  async function read(contents, suffix, name, file = "sentences.txt") {
    status.waiting(`reading ${name}`);
    try {
      const {texts, tags, left_out: left, cut} = await asker.ask("corpus", {contents, suffix, name});
      kept = {number: kept.number + 1, name, file, texts, tags: tags.map((/** @type {any} */ each) => each && new Map(each)),
        written: tags.some(Boolean) ? tags.map((/** @type {any} */ each) => (each ?? []).map((/** @type {[number, string, number]} */ [start, tag, end]) => `${start}-${end}-${tag.replace(/\s/g, "_")}`).join(" ")) : []};
      say(`${left ? `; ${left} can't be read` : ""}${cut ? "; the file has more" : ""}`);
      changed();
    } catch (error) {
      status.error(error);
    }
  }

  /** @param {string} more */
  const say = more => status.note(`${kept.texts.length} sentences: ${kept.name}${more}`);

  return {
    element,
    /** Reads the sentences that ship, or those that another view hands over, unless there are some. */
    begin() {
      const given = context.handed();
      if (given.length) read(given.join("\n"), ".txt", GIVEN);
      else if (!kept.texts.length) read("", ".txt", SHIPPED);
      else say("");
    },
    now: () => kept,
    /** True for the sentences that ship. */ ships: () => kept.name === SHIPPED,
    stop: () => asker.stop(),
  };
}
