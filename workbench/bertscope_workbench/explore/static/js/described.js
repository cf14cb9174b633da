// What each head of a model does, in words: asked once for a model, over the example sentences.

import {EXAMPLES} from "./examples.js";
import {percent} from "./format.js";
import {NUMBERS} from "./numbers.js";

/** A head attends to something if it gives it this share of its attention. */
const LEAST = 0.3;
const TOKENS = ["previous", "next", "self", "first_special", "separators", "punctuation"];
/** Classes of maps (Kovaleva et al. 2019) of heads without such a token. */
const PATTERNS = /** @type {Record<string, string>} */ ({vertical: "looks at the same few tokens from everywhere", diagonal: "looks around the token itself",
  vertical_diagonal: "looks at the same few tokens from everywhere, and around the token itself", block: "looks within a part of the text", heterogeneous: "looks elsewhere from each token"});

/** @typedef {{words: (layer: number, head: number) => string, measured: (layer: number, head: number) => string, most: (statistic: string) => {layer: number, head: number, share: number}}} Described
 * `words` says what a head does, "" for one that is not there; `measured` also over what that was counted; `most` finds the head with the largest share of a statistic. */

/** Makes the descriptions. @param {any} api @param {() => void} changed Called when a model is described. */
export function createDescriptions(api, changed) {
  /** @type {Map<string, Described | null | undefined>} By model and weights; undefined while it is asked, null where it can't be known. */
  const known = new Map();

  /** @param {any} model @param {string} key */
  async function ask(model, key) {
    try {
      const {statistics, patterns} = await api.ask("describe", {texts: EXAMPLES, model: model.name.replace("models/", "")}, {retry: false});
      known.set(key, describedBy(statistics, patterns));
    } catch {
      known.set(key, null); // The page shows all else without it.
    }
    changed();
  }

  /** The description of a model; undefined while it is asked, null where it can't be known. @param {any} model @returns {Described | null | undefined} */
  return model => {
    if (!model?.capabilities.includes("attention") || model.state !== "ready") return null;
    const key = `${model.name} ${model.weights_digest}`;
    if (!known.has(key)) {
      known.set(key, undefined);
      ask(model, key);
    }
    return known.get(key);
  };
}

/** @param {Record<string, number[][]>} statistics @param {string[][]} patterns @returns {Described} */
function describedBy(statistics, patterns) {
  const tokens = TOKENS.filter(name => statistics[name]);
  /** @param {number} layer @param {number} head */
  function words(layer, head) {
    const pattern = patterns[layer]?.[head];
    if (!pattern) return "";
    const share = (/** @type {string} */ name) => statistics[name][layer][head] ?? 0;
    const [best] = [...tokens].sort((a, b) => share(b) - share(a));
    return share(best) >= LEAST ? `attends to ${NUMBERS[best].object} (${percent(share(best))})` : PATTERNS[pattern] ?? "";
  }
  return {
    words,
    measured(layer, head) {
      const found = words(layer, head);
      return found && `${found}, measured on the ${EXAMPLES.length} example sentences of the page`;
    },
    most(statistic) {
      let best = {layer: 0, head: 0, share: 0};
      (statistics[statistic] ?? []).forEach((row, layer) => row.forEach((share, head) => { if (share > best.share) best = {layer, head, share}; }));
      return best;
    },
  };
}
