// The changes of heads as chips; pressing one takes it back.

import {h, replace} from "../dom.js";
import {glyph, groups, kindOf, mark} from "./changes.js";

/** Makes the chips. @param {(places: string[]) => void} takeBack Gets the "layer.head" of the chip that was pressed. */
export function create(takeBack) {
  const element = h("div", {class: "chips", role: "group", "aria-label": "Changed heads"});
  return {
    element,
    /** @param {{changes: import("./changes.js").Changes, heads: number}} data */
    update({changes, heads}) {
      const found = groups(changes);
      replace(element, found.length ? found.map(group => chip(group, heads)) : h("p", {class: "soft"}, "Nothing is changed."));
    },
  };

  /** @param {{kind: string, factor: number, layer: number, heads: number[]}} group @param {number} all */
  function chip(group, all) {
    const place = group.heads.length === all ? `layer ${group.layer}` : `${group.layer}:${group.heads.join(",")}`;
    const kind = kindOf(group.kind);
    return h("button", {type: "button", class: `chip ${kind.class}`, title: "Take back",
      "aria-label": `Take back: ${place} ${kind.done}`, onclick: () => takeBack(group.heads.map(head => `${group.layer}.${head}`))},
    mark(group.kind, glyph(group)), " ", place);
  }
}
