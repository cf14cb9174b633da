// The words of a sentence, each with a signed number under it and a line: below a word that adds, above one that takes away.

import {css, signed} from "../colours.js";
import {h, replace} from "../dom.js";

const [THIN, THICK, PALE, FAINT] = [2, 6, 0.35, 0.005];
const WORDS = /\[MASK\]|[\p{L}\p{M}\p{N}]+|[^\s]/gu;
const MASK = "[MASK]";

/** @typedef {{text: string, start: number, end: number, kind: "word" | "mask" | "taken" | "plain", word?: string}} Part
 * A part of a sentence, by code points; a "taken" one is a mask in the place of `word`, which a click brings back. */
/** @typedef {{places: [number, number][], values: number[], numbers: string[], intervals: [string, string][] | null, method: string}} Values
 * `numbers` and `intervals` as they are shown. */

/** Splits a sentence at the places of its words, or as a tokenizer most likely would.
 * @param {string} text @param {[number, number][] | null} places @param {Map<number, string>} taken Words by the place of their mask.
 * @returns {Part[]} */
export function partsOf(text, places, taken) {
  /** @type {Part[]} */ const found = [];
  let [units, done] = [0, 0];
  for (const match of text.matchAll(WORDS)) {
    done += [...text.slice(units, match.index)].length;
    units = match.index;
    const [start, end, word] = [done, done + [...match[0]].length, taken.get(done)];
    if (match[0] === MASK) found.push({text: MASK, start, end, kind: word === undefined ? "mask" : "taken", word});
    else if (!places) found.push({text: match[0], start, end, kind: "word"});
  }
  if (!places) return found;
  const points = [...text];
  const cut = (/** @type {number} */ start, /** @type {number} */ end) => points.slice(start, end).join("").trim();
  found.push(...places.map(([start, end]) => /** @type {Part} */ ({text: cut(start, end), start, end, kind: "word"})));
  found.sort((a, b) => a.start - b.start);
  const ends = [0, ...found.map(({end}) => end)];
  const between = [...found.map(({start}) => start), points.length].map((start, index) => /** @type {Part} */ (
    {text: cut(ends[index], start), start: ends[index], end: start, kind: "plain"}));
  return [...found, ...between.filter(part => part.text)].sort((a, b) => a.start - b.start);
}

/** Makes the words. @param {(part: Part) => void} pressed @param {(part: Part | null) => void} looked Gets the word that the pointer or the focus is at. */
export function create(pressed, looked) {
  const element = h("div", {class: "word-values", role: "toolbar", "aria-label": "Words; arrows move, Enter masks a word or brings it back"});
  /** @type {Part[]} */ let parts = [];
  let at = 0;

  const buttons = () => /** @type {HTMLElement[]} */ ([...element.querySelectorAll("button")]);
  /** @param {EventTarget | null} target */
  const partAt = target => {
    const button = target instanceof Element ? target.closest("button") : null;
    return button && element.contains(button) ? parts[Number(button.dataset.part)] : null;
  };
  element.addEventListener("click", event => { const part = partAt(event.target); if (part) pressed(part); });
  for (const name of ["pointerover", "focusin"]) element.addEventListener(name, event => looked(partAt(event.target)));
  element.addEventListener("pointerleave", () => looked(partAt(document.activeElement)));
  element.addEventListener("focusout", () => looked(null));
  element.addEventListener("focusin", event => rove(buttons().indexOf(/** @type {HTMLElement} */ (event.target))));
  element.addEventListener("keydown", event => {
    const last = buttons().length - 1;
    const step = /** @type {Record<string, number>} */ ({ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last})[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    buttons()[Math.min(Math.max(step, 0), last)]?.focus();
  });

  /** Makes one word the one that Tab goes to. @param {number} index */
  function rove(index) {
    if (index >= 0) at = index;
    buttons().forEach((button, each) => { button.tabIndex = each === Math.min(at, buttons().length - 1) ? 0 : -1; });
  }

  function build() {
    const focused = element.contains(document.activeElement);
    replace(element, parts.map(({kind}, index) => (kind === "word" || kind === "taken" ?
      h("button", {type: "button", class: "word-value", "data-kind": kind, "data-part": index, "aria-pressed": kind === "taken"}, texts()) :
      h("span", {class: "word-value", "data-kind": kind}, texts()))));
    rove(at);
    if (focused) buttons()[Math.min(at, buttons().length - 1)]?.focus();
  }

  return {
    element,
    /** Draws words and values; where there are as many words as before, in place.
     * @param {Part[]} next @param {Values | null} values @param {"light" | "dark"} theme */
    update(next, values, theme) {
      const kinds = (/** @type {Part[]} */ of) => of.map(({kind}) => kind).join();
      const fresh = kinds(next) !== kinds(parts);
      parts = next;
      if (fresh) build();
      element.classList.toggle("first", values?.method === "occlusion");
      const most = Math.max(0, ...(values?.values ?? []).map(Math.abs));
      const known = new Map(values?.places.map(([start], index) => [start, index]));
      parts.forEach((part, index) => draw(element.children[index], part, values, part.kind === "word" ? known.get(part.start) ?? -1 : -1, most, theme));
    },
  };
}

const texts = () => [h("span", {class: "word-name"}), h("span", {class: "word-number"}), h("span", {class: "visually-hidden"})];

/** @param {any} element @param {Part} part @param {Values | null} values @param {number} index Of the word among those that have values.
 * @param {number} most @param {"light" | "dark"} theme */
function draw(element, part, values, index, most, theme) {
  const [name, number, hidden] = element.children;
  const taken = part.kind === "taken";
  const said = interval(values, index);
  name.textContent = part.text;
  number.textContent = taken ? part.word : values?.numbers[index] ?? "";
  hidden.textContent = taken ? "(masked by you; brings it back)" : said && `(${said})`;
  const share = most ? (values?.values[index] ?? 0) / most : 0;
  const thick = THIN + (THICK - THIN) * Math.abs(share);
  const colour = css(signed(Math.sign(share) * (PALE + (1 - PALE) * Math.abs(share)), theme));
  name.style.boxShadow = Math.abs(share) < FAINT ? "" : `0 ${share > 0 ? thick : -thick}px 0 ${colour}`;
}

/** The interval of a word in words; "" if it has none. @param {Values | null} values @param {number} index */
export function interval(values, index) {
  const ends = values?.intervals?.[index];
  return ends ? `95 % interval ${ends[0]} to ${ends[1]}` : "";
}
