// Edited copies of the Sentences view's rows: what would the model say if the sentence were another one?

import {h} from "../dom.js";
import {create as createStatus} from "../parts/status_line.js";
import {answer, asked, textOf} from "./sentences_row.js";

/**
 * Makes the part.
 * @param {any} context
 * @param {{make: (original: any, fields: any) => any, model: () => string, draw: () => void}} table
 */
export function createCopies(context, {make, model, draw}) {
  const status = createStatus();
  /** @type {Set<AbortController>} */
  const running = new Set();

  /** Asks about a copy. @param {any} row */
  async function ask(row) {
    const controller = new AbortController();
    running.add(controller);
    status.clear();
    try {
      answer(row, await context.api.ask("rows", {rows: [asked(row)], model: model()}, {signal: controller.signal}));
      context.announce(row.found.left_out ?? "the copy is read");
    } catch (error) {
      status.error(error);
    } finally {
      running.delete(controller);
      draw();
    }
  }

  /** @param {any} row */
  function begin(row) {
    const copy = make(row.of ?? row, {...asked(row), more: row.more});
    copy.editing = true;
    (row.of ?? row).copies.push(copy);
    draw();
    /** @type {HTMLElement | null} */ (document.querySelector(`[data-editor="${copy.id}"]`))?.focus();
  }

  /** @param {any} row */
  function remove(row) {
    row.of.copies = row.of.copies.filter((/** @type {any} */ each) => each !== row);
    draw();
    /** @type {HTMLElement | null} */ (document.querySelector(`[data-sentence="${row.of.id}"]`))?.focus();
  }

  return {
    status: status.element,
    /** The fields of a copy that is being edited: Enter asks, Escape takes it back. @param {any} row */
    editor(row) {
      const fields = ["text", ...(row.text_pair ? ["text_pair"] : [])].map((name, index) => h("textarea", {rows: "2", "aria-label": index ? "Edited second text" : "Edited sentence", "data-editor": index ? null : row.id, spellcheck: "false", onkeydown: pressed}));
      const gold = row.answers.length || row.label ? h("input", {"aria-label": row.answers.length ? "Gold words, | between them" : "Gold label", onkeydown: pressed}) : null;
      fields[0].value = row.text;
      if (fields[1]) fields[1].value = row.text_pair;
      if (gold) gold.value = row.answers.length ? row.answers.join(" | ") : row.label;

      /** @param {KeyboardEvent} event */
      function pressed(event) {
        if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); done(); }
        if (event.key === "Escape") remove(row);
      }

      function done() {
        if (!fields[0].value.trim()) return;
        row.text = fields[0].value.trim();
        if (fields[1]) row.text_pair = fields[1].value.trim();
        if (gold && row.answers.length) row.answers = gold.value.split("|").map((/** @type {string} */ word) => word.trim()).filter(Boolean);
        else if (gold) row.label = gold.value.trim();
        row.editing = false;
        draw();
        /** @type {HTMLElement | null} */ (document.querySelector(`[data-sentence="${row.id}"]`))?.focus();
        ask(row);
      }

      return h("div", {class: "copy-editor"}, fields, gold, h("span", null, h("button", {type: "button", class: "primary", onclick: done}, "Ask"), " ", h("button", {type: "button", onclick: () => remove(row)}, "Cancel")));
    },
    /** What can be done with a row. @param {any} row */
    buttons: row => h("span", {class: "row-buttons"},
      h("button", {type: "button", "data-sentence": row.id, "aria-label": `Edit a copy of ${textOf(row)}`, onclick: () => begin(row)}, "Edit a copy"),
      row.of && h("button", {type: "button", "aria-label": `Remove ${textOf(row)}`, onclick: () => remove(row)}, "Remove")),
    stop: () => running.forEach(each => each.abort()),
  };
}
