// "Measure every head": a sweep whose effects come into the grid one after another.

import {h} from "../dom.js";
import * as changing from "../parts/changes.js";
import {create as createStatus} from "../parts/status_line.js";

const DRAW_MILLISECONDS = 100;
const NAMED = 3;

/** @param {any} context @param {() => void} changed Called when there are new effects. */
export function createWorth(context, changed) {
  const asker = context.api.latest();
  const status = createStatus();
  const bar = h("progress", {hidden: true, "aria-label": "Heads measured"});
  const more = h("textarea", {rows: "3", "aria-label": "Further sentences, one a line, each with a mask", oninput: forget});
  more.value = context.handed().join("\n");
  const element = h("div", {class: "worth"}, h("details", {open: more.value !== ""}, h("summary", {class: "soft"}, "Measure over further sentences"),
    h("p", {class: "soft"}, "One a line, each with [MASK]. From 5 sentences on there are intervals; heads whose interval holds zero are faint."), more), bar, status.element);
  const button = h("button", {type: "button", class: "primary", onclick: () => (running ? asker.stop() : measure())}, "Measure every head");
  /** @type {Map<string, any>} */
  let effects = new Map();
  let running = false;
  let outdated = false; // What was measured is that of another sentence, or of other changes.
  let masks = 0;

  async function measure() {
    const now = context.state.get();
    const first = document.querySelector(".sentence textarea");
    const texts = [/** @type {HTMLTextAreaElement} */ (first).value, ...more.value.split("\n").map((/** @type {string} */ line) => line.trim()).filter(Boolean)];
    const changes = changing.read(now.changes);
    const mode = now.brush === "u" ? "uniform" : now.brush === "s" ? "scale" : "zero";
    const total = context.model().layers * context.model().heads;
    const own = effects = new Map();
    outdated = false;
    context.state.set({show: "worth"}, {push: now.show !== "worth"});
    begin(total);
    const began = performance.now();
    const body = {texts, model: now.model ?? "", mode, ...(mode === "scale" && {factor: Number(now.factor ?? 0.5)}), changes: changing.asked(changes)};
    let drawn = 0;
    try {
      await asker.ask("worth", body, {onEvent: (/** @type {any} */ event) => {
        if (effects !== own) return;
        effects.set(`${event.effect.layer}.${event.effect.head}`, event.effect);
        bar.value = effects.size;
        if (performance.now() - drawn < DRAW_MILLISECONDS && effects.size < total) return;
        drawn = performance.now();
        changed();
      }});
      const seconds = ((performance.now() - began) / 1000).toFixed(1);
      say(`${effects.size} heads ${changing.kindOf({zero: "x", uniform: "u", scale: "s"}[mode]).done} one by one in ${seconds} s. ${most()}`);
    } catch (error) {
      if (effects !== own) return; // Another sentence took its place.
      if (error instanceof DOMException) say(`Stopped after ${effects.size} of ${total} heads. ${most()}`);
      else status.error(error);
    } finally {
      if (effects === own) ended();
    }
  }

  function ended() {
    running = false;
    bar.hidden = true;
    button.textContent = "Measure every head";
    changed();
  }

  /** @param {number} total */
  function begin(total) {
    running = true;
    bar.max = total;
    bar.value = 0;
    bar.hidden = false;
    button.textContent = "Stop";
    status.waiting(`changing ${total} heads one after another`);
  }

  /** The heads whose change moves predictions most. */
  function most() {
    const found = [...effects.values()].sort((a, b) => b.difference - a.difference).slice(0, NAMED);
    const without = [...effects.values()].some(effect => effect.no_interval);
    return (found.length ? `Most: ${found.map(({layer, head, difference}) => `${layer}:${head} (${difference.toFixed(3)} nats)`).join(", ")}.` : "") +
      (without ? " Intervals need 5 sentences." : "");
  }

  /** @param {string} text */
  function say(text) {
    status.note(text);
    context.announce(text);
  }

  /** Drops what was measured of other sentences, or of another model. */
  function forget() {
    outdated ||= running || effects.size > 0;
    asker.stop();
    effects = new Map();
    status.clear();
    ended();
  }

  return {
    element,
    button,
    effects: () => effects,
    /** @param {any} start The newest answer: a sweep needs a mask. */
    update(start) {
      masks = start.masks.length;
      button.disabled = !running && !masks;
      button.title = masks ? "" : "Needs a mask: its predictions are what moves";
    },
    forget,
    /** Measures what was dropped for the sentence that took its place. */
    again() { if (outdated && !running && masks) measure(); },
    stop: () => asker.stop(),
  };
}
