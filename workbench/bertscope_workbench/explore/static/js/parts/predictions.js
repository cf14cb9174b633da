// What fills the masks: a headline in words, and bars with ticks where they stood before the changes.

import {h, replace} from "../dom.js";
import {percent} from "../format.js";
import {means} from "../numbers.js";

/** @typedef {{token: string, probability: number, rank: number, before: number | null, rank_before: number | null}} Entry */

/** Makes the predictions. @param {(number: number) => void} chosen Gets the number of the mask that was chosen.
 * @param {(token: string, against: boolean) => void} [explain] Gets a prediction that is to be explained, or against which. */
export function create(chosen, explain) {
  const element = h("div", {class: "predictions"});
  element.addEventListener("click", (/** @type {any} */ event) => {
    const token = event.target.closest("button.bar-name")?.dataset.token;
    if (token !== undefined) explain?.(token, event.shiftKey);
  });
  return {
    element,
    /** @param {{masks: {entries: Entry[]}[], number: number, masked_lm: boolean, compared: boolean, explained?: {answer: string, other: string} | null}} data */
    update({masks, number, masked_lm, compared, explained = null}) {
      const held = element.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement).dataset.token : undefined;
      const mask = masks[number] ?? masks[0];
      if (!mask) {
        replace(element, h("p", {class: "soft"}, masked_lm ?
          "No mask: write [MASK], or double-click a word, to see what the model would put there. Attention is shown all the same." :
          "This model has no masked-LM head, so that it predicts no words. Attention is shown all the same."));
        return;
      }
      replace(element,
        masks.length > 1 && h("label", {class: "soft"}, "Mask ", h("select", {onchange: (/** @type {any} */ event) => chosen(Number(event.target.value))},
          masks.map((_, index) => h("option", {value: index, selected: index === number}, index + 1)))),
        ...headline(mask.entries, compared), bars(mask.entries, compared, explained),
        compared && h("p", {class: "soft tick-legend"}, h("span", {class: "tick", "aria-hidden": "true"}), " before the changes"));
      if (held !== undefined) /** @type {HTMLElement[]} */ ([...element.querySelectorAll("button.bar-name")]).find(each => each.dataset.token === held)?.focus();
    },
  };
}

/** @param {Entry[]} entries @param {boolean} compared */
function headline(entries, compared) {
  const [first, second] = entries;
  const best = compared ? entries.reduce((a, b) => ((b.before ?? 0) > (a.before ?? 0) ? b : a)) : first;
  const fell = best !== first;
  const title = h("p", {class: "headline"}, h("strong", {class: "answer"}, first.token), " ", h("strong", null, percent(first.probability)),
    fell && h("s", null, h("span", {class: "visually-hidden"}, "before: "), best.token));
  let line = second ? `then ${second.token} ${percent(second.probability)}` : "";
  if (fell) line = `${best.token} falls from ${percent(best.before ?? 0)} to ${percent(best.probability)}; ${first.token} was at ${percent(first.before ?? 0)}`;
  else if (compared) line = `was ${percent(first.before ?? 0)}; ${line}`;
  return [title, h("p", {class: "soft"}, line)];
}

/** @param {Entry[]} entries @param {boolean} compared @param {{answer: string, other: string} | null} explained */
function bars(entries, compared, explained) {
  const most = Math.max(...entries.map(entry => Math.max(entry.probability, entry.before ?? 0)));
  return h("ol", {class: "bars"}, entries.map(entry => {
    const said = compared && entry.before !== null ? `${percent(entry.probability)}, before ${percent(entry.before)}` : percent(entry.probability);
    return h("li", null, name(entry.token, explained),
      h("span", {class: "bar-track", "aria-hidden": "true"}, h("span", {class: "bar", style: {width: `${(100 * entry.probability) / most}%`}}),
        compared && entry.before !== null && h("span", {class: "tick", style: {left: `${(100 * entry.before) / most}%`}})),
      h("span", {class: "number", ...means("probability", said)}, percent(entry.probability), h("span", {class: "visually-hidden"}, said.slice(percent(entry.probability).length))));
  }));
}

/** A prediction's name; a button where predictions are explained. @param {string} token @param {{answer: string, other: string} | null} explained */
function name(token, explained) {
  if (!explained) return h("span", {class: "bar-name", title: token}, token);
  return h("button", {type: "button", class: `bar-name${token === explained.other ? " against" : ""}`, "data-token": token, "aria-pressed": token === explained.answer,
    title: `${token}: explain this prediction; with Shift, why the explained one and not this`}, token);
}
