// The switch "words": which words of the sentence made the score of a prediction. First by occlusion, then refined in place.

import {h, replace} from "../dom.js";
import {means} from "../numbers.js";
import * as changing from "../parts/changes.js";
import {command, copyButton, pythonLines, pythonQuoted} from "../parts/copying.js";
import {create as createStatus} from "../parts/status_line.js";
import {create as createValues, interval, partsOf} from "../parts/word_values.js";

const HINT = "Press a word to mask it, and again to bring it back.";
const ABSENT = /** @type {Record<string, string>} */ ({mask: "absent words are masks", deleted: "absent words are cut out"});

/** @typedef {{now: Record<string, string>, start: any, changes: changing.Changes, references: string[]}} Shown
 * `start`: the answer about what is shown now; null while it is on its way. */

/** @param {any} context @param {(patch: Record<string, string | null>, push: boolean) => void} set */
export function createWords(context, set) {
  const asker = context.api.latest();
  const status = createStatus();
  const values = createValues(pressed, part => say(part));
  const readout = h("p", {class: "word-readout soft", ...means("logits")}, HINT);
  const box = h("input", {type: "checkbox", role: "switch", onchange: () => set({why: box.checked ? "1" : null}, true)});
  const [answers, others] = ["answer", "over"].map(key => h("select", {onchange: (/** @type {any} */ event) => set({[key]: event.target.value || null}, true)}));
  const controls = h("div", {class: "words-controls"}, h("label", {class: "inline"}, "Why ", answers), h("label", {class: "inline"}, "and not ", others),
    copyButton("Command", shellLine, context.announce), copyButton("Python", pythonText, context.announce));
  const shownPart = h("div", null, values.element, readout, status.element);
  const element = h("section", {class: "words", "aria-label": "Words"},
    h("div", {class: "words-line"}, h("label", {class: "inline words-switch"}, box, h("strong", null, "words"), h("span", {class: "soft"}, "which of them made the prediction")), controls), shownPart);
  /** @type {Shown} */ let shown = {now: {}, start: null, changes: new Map(), references: []};
  /** The newest values of the question in `asked`. @type {any} */
  let found = null;
  let asked = "";

  /** The explained mask: its number, its predictions, the explained one, and the one against which. */
  function target() {
    const {now, start} = shown;
    const number = start?.masks[Number(now.mask)] ? Number(now.mask) : 0;
    const entries = (start?.masks[number]?.entries ?? []).map((/** @type {any} */ entry) => entry.token);
    const answer = now.answer || (entries[0] ?? "");
    return {number, entries, answer, other: now.over && now.over !== answer ? now.over : ""};
  }

  /** The words that were masked here, by the place of their mask. @returns {Map<number, string>} */
  function taken() {
    try {
      const read = JSON.parse(shown.now.taken || "[]").filter((/** @type {any} */ each) => Number.isInteger(each[0]) && typeof each[1] === "string");
      return new Map(read.map((/** @type {[number, string]} */ [place, word]) => [place, word]));
    } catch {
      return new Map();
    }
  }

  /** Masks a word, or brings it back; what is explained stays. @param {import("../parts/word_values.js").Part} part */
  function pressed({kind, text, word, start, end}) {
    const [points, next, put] = [[...shown.now.text], taken(), kind === "taken" ? /** @type {string} */ (word) : "[MASK]"];
    const longer = [...put].length - (end - start);
    if (kind === "taken") next.delete(start);
    const moved = [...next].map(([place, each]) => [place > start ? place + longer : place, each]);
    if (kind === "word") moved.push([start, text]);
    const before = points.slice(0, start).join("").split("[MASK]").length - 1;
    const {number, answer} = target();
    const own = kind === "taken" && number === before; // The explained mask itself is gone.
    const mask = own ? 0 : number + (kind === "taken" ? (before < number ? -1 : 0) : Number(hasMask() && before <= number));
    points.splice(start, end - start, put);
    set({text: points.join(""), taken: moved.length ? JSON.stringify(moved) : null, mask: mask ? String(mask) : null,
      answer: own ? null : answer || null, row: null, window: null}, true);
  }
  const hasMask = () => shown.now.text.includes("[MASK]");

  /** Asks for the values of what is shown, unless it has. */
  async function ask() {
    const {now, start, changes, references} = shown;
    const {number, answer, other} = target();
    if (!answer) {
      stop();
      if (start) status.note(start.masked_lm ? "No mask: press a word, to see what the model would put there and why." : "This model has no masked-LM head, so that it predicts no words.");
      return;
    }
    const body = {text: now.text, model: now.model ?? "", answer, other, mask: number, changes: changing.asked(changes), reference_texts: references};
    const key = JSON.stringify(body);
    if (key === asked) return;
    asked = key;
    found = null;
    status.waiting("masking one word after another");
    try {
      await asker.ask("attribute", body, {onEvent: (/** @type {any} */ event) => {
        if (asked !== key) return;
        found = event.words;
        draw();
        status.waiting(`${described()}; refining`);
      }});
      if (asked !== key) return;
      status.note(described());
      context.announce(described());
    } catch (error) {
      if (asked === key) status.error(error);
    }
  }

  function described() {
    const {method, pairs, absent, sum} = found;
    const shapley = pairs ? `Shapley values over ${pairs} pairs of orders, in logits` : "exact Shapley values, in logits";
    return `${sum}; ${method === "occlusion" ? "occlusion, in logits" : shapley}; ${ABSENT[absent] ?? absent}`;
  }

  function stop() {
    asker.stop();
    asked = "";
    found = null;
    status.clear();
  }

  function draw() {
    values.update(partsOf(shown.now.text, found?.places ?? null, taken()), found, context.theme());
  }

  /** @param {import("../parts/word_values.js").Part | null} part */
  function say(part) {
    const index = part?.kind === "word" ? found?.places.findIndex((/** @type {[number, number]} */ [start]) => start === part.start) ?? -1 : -1;
    const said = interval(found, index);
    readout.textContent = index < 0 ? HINT : `${part?.text} ${found.numbers[index]}${said && `, ${said}`}. ${HINT}`;
  }

  function asks() {
    const {number, answer, other} = target();
    return {number: (shown.start?.masks.length ?? 0) > 1 ? number : null, answer, other, pairs: found?.pairs || 0, occlusion: found?.method === "occlusion", cut: Boolean(shown.start?.truncated_tokens)};
  }

  function shellLine() {
    const {number, answer, other, pairs, occlusion, cut} = asks();
    return command("attribute", shown.now.text, `--answer=${answer}`, ...(other ? [`--other=${other}`] : []), ...(number === null ? [] : ["--mask", String(number)]), ...changing.options(shown.changes),
      ...(shown.now.model ? ["--model", shown.now.model] : []), ...(occlusion ? ["--method", "occlusion"] : []), ...(pairs ? ["--pairs", String(pairs)] : []), ...(cut ? ["--truncate"] : []));
  }

  function pythonText() {
    const {number, answer, other, pairs, occlusion, cut} = asks();
    const answered = [pythonQuoted(answer), ...(other ? [pythonQuoted(other)] : []), ...(number === null ? [] : [`mask=${number}`])].join(", ");
    const lines = [pythonQuoted(shown.now.text), `bertscope.Answer(${answered})`, ...(shown.now.model ? [`model=${pythonQuoted(shown.now.model)}`] : [])];
    if (occlusion) lines.push('method="occlusion"');
    if (pairs) lines.push(`pairs=${pairs}`);
    if (shown.changes.size) lines.push(`interventions=${changing.python(shown.changes)}`);
    if (shown.references.length) lines.push(`reference_texts=[${shown.references.map(pythonQuoted).join(", ")}]`);
    if (cut) lines.push("truncate=True");
    return pythonLines(`client.attribute_words(${lines.join(", ")})`);
  }

  return {
    element,
    /** The explained prediction, and the one against which; null while the switch is off. */
    explained: () => (shown.now.why === "1" ? target() : null),
    /** @param {Shown} next */
    update(next) {
      shown = next;
      const on = next.now.why === "1";
      box.checked = on;
      controls.hidden = shownPart.hidden = !on;
      if (!on || !next.start) stop();
      if (!on) return;
      if (next.start) {
        const {entries, answer, other} = target();
        options(answers, [...new Set([answer, ...entries])].filter(Boolean), answer);
        options(others, ["", ...new Set([other, ...entries])].filter((token, index) => !index || (token && token !== answer)), other);
        ask();
      }
      draw();
    },
    stop: () => asker.stop(),
  };
}

/** Fills a list of choices, unless it has them: it may be open. @param {any} select @param {string[]} tokens @param {string} chosen */
function options(select, tokens, chosen) {
  const had = [...select.options].map(option => option.value);
  if (JSON.stringify(had) !== JSON.stringify(tokens)) replace(select, tokens.map(token => h("option", {value: token}, token || "nothing else")));
  select.value = chosen;
}
