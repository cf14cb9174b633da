// One line that says how a question went.

import {h} from "../dom.js";
import {AskError, aborted} from "../api.js";

/** Makes a status line. @param {"status" | "alert"} [role] */
export function create(role = "status") {
  const element = h("p", {class: "status-line", role});
  /** @param {string} kind @param {string} text */
  const say = (kind, text) => { element.dataset.kind = kind; element.textContent = text; };
  return {
    element,
    /** @param {string} text */ note: text => say("note", text),
    /** @param {string} text */ waiting: text => say("waiting", text),
    /** Shows an error, unless it only says that a newer question took its place. @param {unknown} error */
    error(error) {
      if (aborted(error)) return;
      say("error", error instanceof AskError ? error.line() : "the page failed; the browser's console says where");
      if (!(error instanceof AskError)) throw error;
    },
    clear: () => say("note", ""),
  };
}
