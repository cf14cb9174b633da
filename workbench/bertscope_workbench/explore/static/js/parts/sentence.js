// The sentence: a text field in which masks are marked; double-click, the button, or Alt+M masks a word.

import {h, replace} from "../dom.js";
import {EXAMPLES} from "../examples.js";

const MASK = "[MASK]";
const PAUSE_MILLISECONDS = 200;

/** What a view says of an empty sentence. */
export const EMPTY = "Write a sentence, or choose one of the examples.";

/**
 * Makes the field.
 * @param {(text: string, pause: boolean) => void} changed Gets the text; `pause` is true while the user types.
 */
export function create(changed) {
  const marks = h("div", {class: "sentence-marks", "aria-hidden": "true"});
  const field = h("textarea", {rows: "1", spellcheck: "false", "aria-label": "Sentence; [MASK] is a word to predict", placeholder: "Write a sentence, with [MASK] for a word to predict", autocomplete: "off",
    oninput: typed, ondblclick: () => mask(), onkeydown: pressed});
  const button = h("button", {type: "button", onclick: () => mask(), title: "Mask the word at the cursor, or the selection (Alt+M)"}, MASK);
  const picker = h("select", {"aria-label": "Examples", onchange: () => { field.value = picker.value; picker.value = ""; show(); tell(false); }},
    h("option", {value: ""}, "Examples"), EXAMPLES.map(text => h("option", null, text)));
  const element = h("div", {class: "sentence"}, h("div", {class: "sentence-box"}, marks, field), button, picker);
  let timer = 0;

  function typed() {
    show();
    clearTimeout(timer);
    timer = window.setTimeout(() => tell(true), PAUSE_MILLISECONDS);
  }

  /** @param {boolean} pause */
  function tell(pause) {
    clearTimeout(timer);
    timer = 0;
    changed(field.value, pause);
  }

  /** @param {KeyboardEvent} event */
  function pressed(event) {
    if (event.altKey && event.code === "KeyM") {
      event.preventDefault();
      mask();
    } else if (event.key === "Enter") {
      event.preventDefault(); // A text is one line.
      tell(false);
    }
  }

  /** Puts a mask in the place of the selection, or of the word at the cursor. */
  function mask() {
    const text = field.value;
    let {selectionStart: start, selectionEnd: end} = field;
    if (start === end) {
      while (start > 0 && /[\p{L}\p{N}]/u.test(text[start - 1])) start--;
      while (end < text.length && /[\p{L}\p{N}]/u.test(text[end])) end++;
    }
    while (end > start && /\s/.test(text[end - 1])) end--;
    replaceRange(start, end);
  }

  /** @param {number} start @param {number} end UTF-16 offsets. */
  function replaceRange(start, end) {
    field.setRangeText(MASK, start, end, "end");
    show();
    tell(false);
  }

  function show() {
    replace(marks, field.value.split(/(\[MASK\])/).map((/** @type {string} */ part) => (part === MASK ? h("mark", null, part) : part)), "\u200b");
  }

  /** Shows a text, unless one that was typed is still to be told. @param {string} text */
  function set(text) {
    if (timer || field.value === text) return;
    field.value = text;
    show();
  }
  return {element, set, field,
    /** Masks code points of the text: offsets of tokens count code points. @param {number} start @param {number} end */
    maskCodePoints(start, end) {
      const points = [...field.value];
      const units = (/** @type {number} */ count) => points.slice(0, count).join("").length;
      replaceRange(units(start), units(end));
    }};
}
