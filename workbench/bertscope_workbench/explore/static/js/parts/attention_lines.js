// The attention of one head as lines from each token to those it attends to; for short texts.

import {replace, svg} from "../dom.js";
import {percent} from "../format.js";

const ROW = 32;
const TOP = 26;
const WIDTH = 380;
const NAME = 110;
const MOST_LETTERS = 14;

/**
 * @typedef {object} HeadData
 * @property {{text: string, start: number, end: number, special: boolean}[]} tokens
 * @property {import("./maps.js").Maps} map Of one head.
 * @property {number} row Index of the token that is looked from.
 * @property {boolean} special Shows special tokens.
 * @property {number} threshold Lines from this weight on.
 * @property {"light" | "dark"} theme
 */

/**
 * Makes the drawing.
 * @param {(row: number) => void} chosen Gets the index of a token.
 * @param {(row: number) => void} masked Gets the index of a token to mask.
 */
export function create(chosen, masked) {
  const element = svg("svg", {class: "attention-lines", role: "listbox", "aria-label": "Tokens that attend; arrows choose one, M masks it", tabindex: "0"});
  /** @type {HeadData} */
  let data;
  /** @type {number[]} */
  let shown = [];

  element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !shown.length) return;
    const place = shown.indexOf(data.row);
    const next = /** @type {Record<string, number>} */ ({ArrowUp: place - 1, ArrowDown: place + 1, Home: 0, End: shown.length - 1})[event.key];
    if (next !== undefined) chosen(shown[Math.min(Math.max(next, 0), shown.length - 1)]);
    else if (event.key === "m" || event.key === "M") masked(data.row);
    else return;
    event.preventDefault();
  });

  return {
    element,
    toSvg: () => (shown.length ? element : null),
    /** @param {HeadData} next */
    update(next) {
      data = next;
      shown = data.tokens.map((_, index) => index).filter(index => data.special || !data.tokens[index].special);
      const height = TOP + shown.length * ROW + 4;
      element.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
      replace(element, svg("text", {class: "column-name", x: NAME - 10, y: 14, "text-anchor": "end"}, "from"),
        svg("text", {class: "column-name", x: WIDTH - NAME + 10, y: 14}, "to"),
        ...lines(), ...shown.map((index, order) => from(index, order)), ...shown.map((index, order) => to(index, order)));
      element.setAttribute("aria-activedescendant", `from-${data.row}`);
    },
  };

  /** @param {number} row @param {number} column */
  function weight(row, column) {
    return data.map.cells[row * data.map.columns + column] / data.map.most;
  }

  function lines() {
    const drawn = [];
    for (const chosenPass of [false, true]) {
      for (const [first, row] of shown.entries()) {
        if ((row === data.row) !== chosenPass) continue;
        for (const [second, column] of shown.entries()) {
          const share = weight(row, column);
          if (share < data.threshold) continue;
          const [y1, y2] = [middle(first), middle(second)];
          drawn.push(svg("path", {class: row === data.row ? "line chosen" : "line", "stroke-width": (1 + 5 * share).toFixed(2),
            "stroke-opacity": (chosenPass ? 0.15 + 0.85 * share : 0.04 + 0.2 * share).toFixed(3), fill: "none",
            d: `M${NAME} ${y1}C${WIDTH / 2} ${y1} ${WIDTH / 2} ${y2} ${WIDTH - NAME} ${y2}`}));
        }
      }
    }
    return drawn;
  }

  /** @param {number} index @param {number} order */
  function from(index, order) {
    const token = data.tokens[index];
    return svg("g", {role: "option", id: `from-${index}`, class: `token${token.special ? " special" : ""}`, "aria-selected": index === data.row,
      "aria-label": said(index), onclick: () => chosen(index), ondblclick: () => masked(index)},
    svg("title", null, said(index)), svg("rect", {x: 0, y: middle(order) - ROW / 2 + 2, width: NAME - 4, height: ROW - 4, rx: 5}),
    svg("text", {x: NAME - 10, y: middle(order) + 5, "text-anchor": "end"}, short(token.text)));
  }

  /** @param {number} index @param {number} order */
  function to(index, order) {
    const share = weight(data.row, index);
    return svg("g", {class: `token to${data.tokens[index].special ? " special" : ""}`, "aria-hidden": "true"},
      svg("title", null, `${data.tokens[data.row].text} looks at ${data.tokens[index].text}: ${percent(share)}`),
      svg("rect", {x: WIDTH - NAME + 4, y: middle(order) - ROW / 2 + 2, width: NAME - 4, height: ROW - 4, rx: 5, "fill-opacity": (0.5 * share).toFixed(3)}),
      svg("text", {x: WIDTH - NAME + 10, y: middle(order) + 5, "font-weight": share >= 0.2 ? 600 : 400}, short(data.tokens[index].text)));
  }

  /** @param {number} index */
  function said(index) {
    const best = shown.map(column => [weight(index, column), data.tokens[column].text]).sort((a, b) => Number(b[0]) - Number(a[0])).slice(0, 3);
    return `${data.tokens[index].text} looks at ${best.map(([share, text]) => `${text} ${percent(Number(share))}`).join(", ")}`;
  }
}

/** @param {number} order */
const middle = order => TOP + order * ROW + ROW / 2;

/** @param {string} text */
const short = text => ([...text].length > MOST_LETTERS ? [...text].slice(0, MOST_LETTERS - 1).join("") + "…" : text);
