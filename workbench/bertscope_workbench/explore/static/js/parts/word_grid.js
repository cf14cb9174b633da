// A heat map of words: layers down, the last on top, tokens across; in each cell the likeliest word, coloured by one number.

import {css, inkOn, magnitude, signed} from "../colours.js";
import {h, replace, svg} from "../dom.js";

const [WIDE, HIGH, LABEL, HEAD, LEGEND] = [84, 40, 52, 46, 40];
const LONGEST = 11;

/** @typedef {{word: string, number: string, share: number, said: string}} Cell `share`, 0 to 1, gives the colour; below 0, to -1, another one. */
/**
 * @typedef {object} WordGrid
 * @property {number[]} layers In the order of the rows, from the top.
 * @property {{token: string, index: number, mask: boolean}[]} columns
 * @property {Cell[][]} cells By row and column.
 * @property {[number, number]} at Row and column of the cell that is looked at.
 * @property {"light" | "dark"} theme
 * @property {[string, string, string]} scale What the colour stands for, and its two ends.
 * @property {string} [across] What the columns are.
 */

/** Makes the grid. `dragged`: the name of what a cell carries when it is dragged, "row.column"; none are unless it is given. @param {(row: number, column: number) => void} chosen @param {(row: number, column: number) => void} hovered @param {string} [what] @param {string} [dragged] */
export function create(chosen, hovered, what = "Predictions", dragged = "") {
  const element = h("div", {class: "word-grid", role: "grid", "aria-label": `${what}, layers down, tokens across; arrows move`});
  /** @type {any[][]} */ let cells = [];
  let shape = "";
  /** @type {WordGrid | null} */ let data = null;

  function build() {
    const {layers, columns} = /** @type {WordGrid} */ (data);
    element.style.setProperty("--columns", String(columns.length));
    cells = layers.map((_, row) => columns.map((__, column) =>
      h("div", {role: "gridcell", class: "word", tabindex: "-1", draggable: dragged && "true", "data-row": row, "data-column": column}, h("span", {class: "word-text"}), h("span", {class: "word-number"}))));
    const heads = h("div", {role: "row"}, h("div", {role: "columnheader", class: "word-layer"}, "Layer"),
      columns.map(({token, mask}) => h("div", {role: "columnheader", class: mask && "mask", title: token}, token)));
    replace(element, heads, layers.map((layer, row) => h("div", {role: "row"}, h("div", {role: "rowheader", class: "word-layer"}, layer), cells[row])));
  }

  /** @param {EventTarget | null} target @returns {[number, number] | null} */
  function placed(target) {
    const found = /** @type {HTMLElement | null} */ (target instanceof Element ? target.closest("[data-row]") : null);
    return found && element.contains(found) ? [Number(found.dataset.row), Number(found.dataset.column)] : null;
  }

  element.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const place = placed(event.target);
    if (place) take(...place);
  });
  element.addEventListener("dragstart", (/** @type {DragEvent} */ event) => {
    const place = placed(event.target);
    if (place) event.dataTransfer?.setData(dragged, place.join("."));
  });
  element.addEventListener("pointerover", (/** @type {PointerEvent} */ event) => {
    const place = placed(event.target);
    if (place && event.pointerType !== "touch") hovered(...place);
  });
  element.addEventListener("pointerleave", () => { if (data) hovered(...data.at); });
  element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const place = placed(event.target);
    if (!place || !data || event.ctrlKey || event.metaKey || event.altKey) return;
    const [row, column] = place;
    const step = /** @type {Record<string, [number, number]>} */ ({ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1], Home: [row, 0], End: [row, data.columns.length - 1], PageUp: [0, column], PageDown: [data.layers.length - 1, column]})[event.key];
    if (!step) return;
    event.preventDefault();
    if (cells[step[0]]?.[step[1]]) take(...step);
  });

  /** @param {number} row @param {number} column */
  function take(row, column) {
    cells[row][column].focus();
    chosen(row, column);
  }

  /** Scrolls sideways to a cell that is out of sight. @param {HTMLElement} cell */
  function show(cell) {
    const scroll = element.parentElement;
    if (scroll && cell.offsetLeft + cell.offsetWidth > scroll.clientWidth) scroll.scrollLeft = cell.offsetLeft - (scroll.clientWidth - cell.offsetWidth) / 2;
  }

  return {
    element,
    /** @param {WordGrid} next */
    update(next) {
      data = next;
      const now = JSON.stringify([data.layers, data.columns]);
      const fresh = now !== shape;
      shape = now;
      if (fresh) build();
      data.cells.forEach((row, index) => row.forEach((cell, column) => draw(cells[index][column], cell, /** @type {WordGrid} */ (data), index, column)));
      if (fresh) show(cells[data.at[0]][data.at[1]]);
    },
    toSvg: () => data && drawing(data),
  };
}

/** @param {number} share @param {"light" | "dark"} theme */
function shade(share, theme) { return share < 0 ? signed(share, theme) : magnitude(share, theme); }

/** @param {any} element @param {Cell} cell @param {WordGrid} data @param {number} row @param {number} column */
function draw(element, cell, data, row, column) {
  const colour = shade(cell.share, data.theme);
  element.style.backgroundColor = css(colour);
  element.style.color = inkOn(colour);
  element.children[0].textContent = cell.word;
  element.children[1].textContent = cell.number;
  element.setAttribute("aria-label", cell.said);
  const current = row === data.at[0] && column === data.at[1];
  element.tabIndex = current ? 0 : -1;
  if (current) element.setAttribute("aria-current", "true");
  else element.removeAttribute("aria-current");
}

/** The grid as a drawing of its own, with the names of its axes and its scale. @param {WordGrid} data */
function drawing(data) {
  const [width, height] = [LABEL + Math.max(4, data.columns.length) * WIDE, HEAD + data.layers.length * HIGH + LEGEND];
  const colours = getComputedStyle(document.documentElement);
  const [ink, soft] = ["--text", "--text-soft"].map(name => colours.getPropertyValue(name));
  const result = svg("svg", {viewBox: `0 0 ${width} ${height}`, fill: ink, "font-family": "sans-serif", "font-size": 13, "text-anchor": "middle"});
  result.append(svg("text", {x: LABEL, y: 12, fill: soft, "text-anchor": "start", "font-size": 11}, data.across ?? "token of the text"), svg("text", {x: LABEL - 10, y: HEAD - 10, fill: soft, "text-anchor": "end", "font-size": 11}, "layer"));
  data.columns.forEach(({token}, column) => result.append(svg("text", {x: LABEL + (column + 0.5) * WIDE, y: HEAD - 10, "font-weight": "bold"}, short(token))));
  data.cells.forEach((row, index) => {
    const y = HEAD + index * HIGH;
    result.append(svg("text", {x: LABEL - 10, y: y + HIGH / 2 + 4, "text-anchor": "end"}, data.layers[index]));
    row.forEach((cell, column) => {
      const colour = shade(cell.share, data.theme);
      const [x, text] = [LABEL + column * WIDE, inkOn(colour)];
      result.append(svg("rect", {x, y, width: WIDE - 2, height: HIGH - 2, rx: 3, fill: css(colour), stroke: colours.getPropertyValue("--line")}),
        svg("text", {x: x + WIDE / 2 - 1, y: y + 16, fill: text}, short(cell.word)), svg("text", {x: x + WIDE / 2 - 1, y: y + 31, fill: text, "font-size": 10}, cell.number));
    });
  });
  const y = height - LEGEND + 14;
  const [name, low, high] = data.scale;
  result.append(svg("text", {x: LABEL, y: y + 10, "text-anchor": "start", "font-size": 11}, `${name}: ${low}`));
  const from = LABEL + 5.8 * (name.length + low.length) + 14;
  for (const step of Array(12).keys()) result.append(svg("rect", {x: from + step * 9, y, width: 9, height: 12, fill: css(magnitude(step / 11, data.theme))}));
  result.append(svg("text", {x: from + 116, y: y + 10, "text-anchor": "start", "font-size": 11}, high));
  return result;
}

/** @param {string} text */
function short(text) {
  const points = [...text];
  return points.length > LONGEST ? `${points.slice(0, LONGEST - 1).join("")}…` : text;
}
