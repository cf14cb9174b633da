// The sentences that the Find view looks in: those that ship, until a file is opened.

import {h} from "../dom.js";
import {create as createStatus} from "../parts/status_line.js";

const MAX_BYTES = 16_000_000;
const SHIPPED = "sentences that ship with the page";

/** The sentences, which outlive a look at another view. @type {{name: string, texts: string[], tags: (Map<number, string> | null)[], written: string[]}} */
let kept = {name: "", texts: [], tags: [], written: []};

/** Makes the part. @param {any} context @param {() => void} changed Called when there are other sentences. */
export function createCorpus(context, changed) {
  const asker = context.api.latest();
  const status = createStatus();
  const file = h("input", {type: "file", accept: ".txt,.conllu,text/plain", "aria-label": "A file of sentences", onchange: () => open(file.files[0])});
  const box = h("textarea", {rows: "3", "aria-label": "Sentences to look in, one a line", placeholder: "or write sentences here, one a line", spellcheck: "false"});
  const element = h("section", {class: "panel find-corpus", "aria-label": "Sentences to look in"}, h("header", null, h("h2", null, "Sentences")), status.element,
    h("label", null, h("span", {class: "soft"}, "A text file, one sentence a line, or a treebank (.conllu), whose tags are shown"), file), box, h("button", {type: "button", onclick: () => { if (box.value.trim()) read(box.value, ".txt", "sentences.txt"); }}, "Look in these"));

  /** @param {File | undefined} chosen */
  async function open(chosen) {
    if (!chosen) return;
    if (chosen.size > MAX_BYTES) status.note(`${chosen.name} has ${Math.ceil(chosen.size / 1e6)} MB; the page reads files of at most ${MAX_BYTES / 1e6} MB.`);
    else await read(await chosen.text(), chosen.name.endsWith(".conllu") ? ".conllu" : ".txt", chosen.name);
  }

  /** @param {string} contents Empty for what ships. @param {string} suffix @param {string} name */
  async function read(contents, suffix, name) {
    status.waiting(`reading ${name}`);
    try {
      const {texts, tags, left_out: left, cut} = await asker.ask("corpus", {contents, suffix});
      kept = {name, texts, tags: tags.map((/** @type {any} */ each) => each && new Map(each)),
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
      if (given.length) read(given.join("\n"), ".txt", "sentences.txt");
      else if (!kept.texts.length) read("", ".txt", SHIPPED);
      else say("");
    },
    texts: () => kept.texts,
    /** A file's name for commands. */ name: () => (kept.name === SHIPPED ? "sentences.txt" : kept.name || "sentences.txt"),
    /** True for the sentences that ship. */ ships: () => kept.name === SHIPPED,
    /** All tags, as a question takes them; none of a corpus without. */ tags: () => kept.written,
    tagged: () => kept.tags.some(Boolean),
    /** The tag of the word that begins there; null if there is none. @param {number} text @param {number} start */
    tag: (text, start) => /** @type {any} */ (kept.tags[text])?.get(start) ?? null,
    stop: () => asker.stop(),
  };
}
