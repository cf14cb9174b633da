// The tour: what docs/explore.md says of ten minutes, as steps beside what they speak of. It starts on first use, and is remembered.

import {h, replace} from "./dom.js";
import {EXAMPLES} from "./examples.js";
import {percent} from "./format.js";
import {recall, remember} from "./remembered.js";

const NAME = "tour";
const DONE = "done";
const FURTHER = ["The roads to the village [MASK] closed.", "The boxes on the shelf [MASK] empty.", "The flowers in the garden [MASK] red.", "The authors of this book [MASK] very famous.", "The windows of the house [MASK] open."];
/** Heads of the embedded model that carry the number of the subject to the mask. */
const CARRIERS = [{layer: 3, head: 1, share: 0}, {layer: 4, head: 10, share: 0}];

/** @typedef {{layer: number, head: number, share: number}} Found */
/** @typedef {{before: Found | null, silenced: Found[], why: string}} Facts The head that attends most to the token before; heads to silence, and why these. */
/** @typedef {{title: string, target: string, text: (facts: Facts) => string, act?: {label: (facts: Facts) => string, run: (facts: Facts, state: any) => void}}} Step */

const named = (/** @type {Found[]} */ ...heads) => heads.map(({layer, head}) => `head ${head} of layer ${layer}`).join(" and ");
const place = (/** @type {Found} */ {layer, head}) => `${layer}.${head}`;
const changed = (/** @type {string} */ kind, /** @type {Found[]} */ heads) => heads.map(({layer, head}) => `${kind}${layer}-${head}`).join("_");
const click = (/** @type {string} */ selector) => /** @type {HTMLElement | null} */ (document.querySelector(selector))?.click();

/** @type {Step[]} */
const STEPS = [
  {title: "What does the model write?", target: ".predictions", text: () => "These are the words that the model finds likely in the place of [MASK], each with its probability. Write another sentence, double-click a word to mask it, or choose an example."},
  {title: "What does a head look at?", target: ".head-grid", text: ({before}) => `Each square is a head, layers down, and draws its attention. Point at one: a line below says what it does. ${before ? `${capital(named(before))} gives ${percent(before.share)} of its attention to the token before. ` : ""}Heads that find nothing to look at look at [CLS].`,
    act: {label: ({before}) => `Show ${before ? named(before) : "the first head"}`, run: ({before}, state) => state.set({at: before && place(before), show: null, brush: null})}},
  {title: "Follow its lines", target: ".detail", text: () => "At the left is the token that looks, at the right what it looks at; a thicker line is more attention. Choose a token at the left. The sentence above the lines says it in words."},
  {title: "What if a head were silent?", target: ".brush-line", text: ({silenced, why}) => `A click does what is chosen here. Choose silences and click ${named(...silenced)}, ${why}: ticks mark where the bars stood. Moved shows which later heads look elsewhere now.`,
    act: {label: ({silenced}) => `Silence ${named(...silenced)}`, run: ({silenced}, state) => state.set({changes: changed("x", silenced), brush: "x"})}},
  {title: "Does it matter how it is silenced?", target: ".chips", text: () => "Flattened, a head gives the mean of all tokens instead of nothing. Compare the bars: a conclusion that depends on that choice is a weak one. A chip takes a change back, and so does Undo.",
    act: {label: ({silenced}) => `Flatten ${named(...silenced)} instead`, run: ({silenced}, state) => state.set({changes: changed("u", silenced), brush: "u"})}},
  {title: "Which heads does this sentence need?", target: ".grid-buttons", text: () => "Measure every head silences one after another, and colours each by how far the predictions move without it, in nats. Stop keeps what there is.",
    act: {label: () => "Measure every head", run: (_, state) => { state.set({changes: null, brush: null}); click(".grid-buttons .primary"); }}},
  {title: "And other sentences?", target: ".worth", text: () => "What is large for one sentence need not be for others. From five sentences on there are intervals, and heads whose interval holds zero are faint.",
    act: {label: () => "Measure over six sentences", run: (_, state) => {
      const details = /** @type {HTMLDetailsElement} */ (document.querySelector(".worth details"));
      details.open = true;
      /** @type {HTMLTextAreaElement} */ (details.querySelector("textarea")).value = FURTHER.join("\n");
      state.set({changes: null, brush: null});
      click(".grid-buttons .primary");
    }}},
  {title: "Where else does it do this?", target: ".find-link", text: () => "This link leads to Find: the words of many sentences at which the head attends most. Find looks for neurons, too, for words that are used alike, and for classes of probes; each place leads back here."},
  {title: "Keep it, and go on", target: ".page-footer", text: () => "Each finding has a link, and the command and the Python that compute it again. The other views are above: Compare sets two models side by side. Press ? for help with whatever has the focus; the tour is there, too."},
];

/** Makes the tour. @param {any} state @param {() => any} model The chosen model. @param {() => any} described The description of its heads, if it is known. */
export function createTour(state, model, described) {
  const ring = h("div", {class: "tour-ring", "aria-hidden": "true"});
  const panel = h("section", {class: "tour", role: "dialog", "aria-labelledby": "tour-title", "aria-describedby": "tour-text", tabindex: "-1", onkeydown: (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") end();
    else if (event.key === "ArrowRight") go(at + 1);
    else if (event.key === "ArrowLeft") go(at - 1);
    else return;
    event.preventDefault();
  }});
  let at = -1;
  /** @type {Element | null} */ let before = null;
  const watched = new ResizeObserver(follow);

  function facts() {
    const found = described();
    const [before, next] = ["previous", "next"].map(name => found?.most(name) ?? null);
    return model()?.name === "models/bertscope-mini" && (state.get().text ?? EXAMPLES[0]) === EXAMPLES[0] ? {before, silenced: CARRIERS, why: "which carry the number of keys to the mask: without them the model writes is"}
      : {before, silenced: [next ?? {layer: 0, head: 0, share: 0}], why: next ? `which looks at the token after (${percent(next.share)})` : "the first one"};
  }

  /** @param {number} step */
  function go(step) {
    if (step < 0) return;
    if (step >= STEPS.length) {
      end();
      return;
    }
    if (at < 0) before = document.activeElement;
    at = step;
    remember(NAME, String(step));
    if (state.get().view !== "explore") state.set({view: "explore"});
    if (!panel.isConnected) document.body.append(ring, panel);
    document.body.classList.add("touring");
    draw();
    target()?.scrollIntoView({block: "center"});
    panel.focus({preventScroll: true});
  }

  function draw() {
    if (at < 0) return;
    const {title, text, act} = STEPS[at];
    const known = facts();
    replace(panel, h("div", {class: "tour-head"}, h("h2", {id: "tour-title"}, title), h("span", {class: "soft"}, `${at + 1} of ${STEPS.length}`)),
      h("p", {id: "tour-text"}, text(known)), act && h("p", null, h("button", {type: "button", onclick: () => act.run(known, state)}, act.label(known))),
      h("div", {class: "tour-buttons"}, h("button", {type: "button", class: "tour-skip", onclick: end}, at < STEPS.length - 1 ? "Skip the tour" : "Close"),
        h("button", {type: "button", disabled: at === 0, onclick: () => go(at - 1)}, "Back"),
        h("button", {type: "button", class: "primary", onclick: () => go(at + 1)}, at < STEPS.length - 1 ? "Next" : "Done")));
    watched.disconnect();
    for (const each of [target(), document.querySelector("#view")]) if (each) watched.observe(each);
    follow();
  }

  const target = () => document.querySelector(`#view ${STEPS[at].target}`);

  /** Puts the ring around what the step speaks of. */
  function follow() {
    const box = at < 0 ? null : target()?.getBoundingClientRect();
    ring.hidden = !box?.width;
    if (!box) return;
    const {style} = ring;
    [style.left, style.top, style.width, style.height] = [box.left + window.scrollX, box.top + window.scrollY, box.width, box.height].map(each => `${each}px`);
  }

  function end() {
    remember(NAME, DONE);
    at = -1;
    watched.disconnect();
    document.body.classList.remove("touring");
    ring.remove();
    panel.remove();
    /** @type {HTMLElement} */ (before?.isConnected && before !== document.body ? before : document.querySelector("#view")).focus({preventScroll: true});
  }

  return {
    /** Begins, from the first step. */ start: () => go(0),
    /** Begins on first use, and goes on where a visit ended in the middle. */
    offer() {
      const seen = recall(NAME);
      if (seen !== DONE && at < 0) go(Math.min(Number(seen) || 0, STEPS.length - 1));
    },
    /** Says it anew: heads were described, or the view was drawn. */ update: draw,
  };
}

/** @param {string} text */
const capital = text => text[0].toUpperCase() + text.slice(1);
