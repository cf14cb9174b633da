// A form that asks about a list: a field for its lines, a file to fill it, a button that asks or stops, and how far it is.

import {h} from "../dom.js";
import {create as createStatus} from "./status_line.js";
import {textOf} from "./text_file.js";

export const MAX_BYTES = 700_000;

/**
 * Makes the form. `run` asks about the text, and returns what to say at the end.
 * @param {any} context
 * @param {{title: string, label: string, placeholder: string, text: string, accept: string, file: string, action: string, run: (text: string, asker: any) => Promise<string>,
 *   named?: (name: string) => void, more?: Node[]}} how `named` gets the name of a file that is opened; `more` are further fields.
 */
export function createForm({api, announce}, {title, label, placeholder, text, accept, file: fileLabel, action, run, named, more = []}) {
  const asker = api.latest();
  const status = createStatus();
  const box = h("textarea", {rows: "5", "aria-label": label, placeholder, spellcheck: "false"});
  box.value = text;
  const file = h("input", {type: "file", accept, "aria-label": fileLabel, onchange: () => open(file.files[0])});
  const bar = h("progress", {hidden: true, "aria-label": "Progress"});
  const button = h("button", {type: "button", class: "primary", onclick: () => (running ? asker.stop() : ask())}, action);
  let running = false;

  /** @param {File | undefined} chosen */
  async function open(chosen) {
    if (!chosen) return;
    const read = await textOf(chosen, MAX_BYTES, status);
    if (read === null) return;
    box.value = read;
    named?.(chosen.name);
    ask();
  }

  async function ask() {
    if (running) asker.stop();
    running = true;
    button.textContent = "Stop";
    status.waiting("asking");
    try {
      const said = await run(box.value, asker);
      status.note(said);
      announce(said);
    } catch (error) {
      if (error instanceof DOMException) status.note("Stopped.");
      else status.error(error);
    } finally {
      running = false;
      bar.hidden = true;
      button.textContent = action;
    }
  }

  return {
    element: h("section", {class: "panel sentences-form", "aria-label": title}, h("h2", null, title), box, h("div", {class: "line"}, file, more, button), bar, status.element),
    stop: () => asker.stop(),
    /** @param {number} done @param {number | null} total */
    progress(done, total) {
      bar.hidden = !total;
      bar.max = total || 1;
      bar.value = done;
      status.waiting(`${done}${total ? ` of ${total}` : ""}`);
    },
  };
}
