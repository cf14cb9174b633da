// One line that says how a question went, and greys what is old while a new answer is on its way.

import {h} from "../dom.js";
import {AskError, aborted} from "../api.js";

const STALE_MILLISECONDS = 150;

/** Makes a status line. */
export function create() {
  const element = h("p", {class: "status-line", role: "status"});
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

/** @type {WeakMap<Element, number>} Questions in flight for an element that is grey, so that a newer one keeps it grey. */
const waitedFor = new WeakMap();

/** Greys the elements if the answer takes longer than 150 ms, until it is there or failed.
 * @template T @param {Promise<T>} answer @param {Element[]} elements @returns {Promise<T>} */
export async function greyWhile(answer, elements) {
  let grey = false;
  const timer = setTimeout(() => {
    grey = true;
    for (const element of elements) count(element, 1);
  }, STALE_MILLISECONDS);
  try {
    return await answer;
  } finally {
    clearTimeout(timer);
    if (grey) for (const element of elements) count(element, -1);
  }
}

/** @param {Element} element @param {number} change */
function count(element, change) {
  const now = (waitedFor.get(element) ?? 0) + change;
  waitedFor.set(element, now);
  element.classList.toggle("stale", now > 0);
  element.setAttribute("aria-busy", String(now > 0));
}
