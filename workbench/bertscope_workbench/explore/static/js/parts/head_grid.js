// The grid of heads, layers down: maps in small, or one number for each head; a brush paints changes.

import {css, magnitude, signed} from "../colours.js";
import {h, replace, svg} from "../dom.js";
import {percent} from "../format.js";
import {glyph, kindOf} from "./changes.js";
import {paint} from "./maps.js";

const CELL = 44;
const LABEL = 26;

/** @typedef {"maps" | "moved" | "worth"} Show */
/** @typedef {{difference: number, low: number | null, high: number | null}} Effect */
/**
 * @typedef {object} GridData
 * @property {number} layers
 * @property {number} heads
 * @property {Show} show
 * @property {import("./maps.js").Maps | null} pictures
 * @property {number[][] | null} moved
 * @property {Map<string, Effect>} worth
 * @property {import("./changes.js").Changes} changes
 * @property {string} at "layer.head" of the head whose attention is shown.
 * @property {"light" | "dark"} theme
 * @property {(value: number) => string} [said] Says a number of `moved` or `worth` in words.
 * @property {import("../described.js").Described | null} [described] What heads do, if it is known.
 */

/**
 * Makes the grid.
 * @param {(places: string[], first: boolean) => void} painted Gets the "layer.head" that the brush met; `first` begins a stroke.
 * @param {(key: string) => void} letter Gets a letter that was pressed.
 * @param {(said: string) => void} [looked] Gets what is said of the head that the pointer or the focus is at; "" of none.
 */
export function create(painted, letter, looked) {
  const element = h("div", {class: "head-grid", role: "grid", "aria-label": "Heads, layers down; arrows move, Enter does what a click does"});
  /** @type {any[][]} Cells, with headers at row and column 0. */
  let cells = [];
  let size = "";
  let focus = [1, 1];
  /** @type {GridData} */
  let data;
  let stroke = "";
  /** The maps that the canvases show, and their theme: an answer comes in parts, and most of them change no map. @type {any[]} */
  let onCanvas = [];

  /** @param {number} row @param {number} column @returns {string[]} */
  function placesOf(row, column) {
    const rows = row ? [row - 1] : range(data.layers);
    const columns = column ? [column - 1] : range(data.heads);
    return rows.flatMap(layer => columns.map(head => `${layer}.${head}`));
  }

  function build() {
    size = `${data.layers} ${data.heads}`;
    element.style.setProperty("--heads", String(data.heads));
    cells = [...Array(data.layers + 1).keys()].map(row => [...Array(data.heads + 1).keys()].map(column => cell(row, column)));
    replace(element, cells.map(row => h("div", {role: "row"}, row)));
    focus = [1, 1];
    move(1, 1, false);
  }

  /** @param {number} row @param {number} column */
  function cell(row, column) {
    if (!row && !column) return h("div", {role: "columnheader", class: "corner"}, h("span", {class: "visually-hidden"}, "Layer"));
    if (!row || !column) {
      const name = row ? `layer ${row - 1}` : `head ${column - 1} of every layer`;
      return h("div", {role: row ? "rowheader" : "columnheader", class: "grid-label", tabindex: "-1", "data-row": row, "data-column": column, "aria-label": name},
        row ? row - 1 : column - 1);
    }
    return h("div", {role: "gridcell", class: "head", tabindex: "-1", "data-row": row, "data-column": column},
      h("canvas", {"aria-hidden": "true", width: 1, height: 1}), h("span", {class: "glyph", "aria-hidden": "true"}));
  }

  /** @param {number} row @param {number} column @param {boolean} take */
  function move(row, column, take) {
    if (!row && !column) return;
    cells[focus[0]]?.[focus[1]]?.setAttribute("tabindex", "-1");
    focus = [row, column];
    cells[row][column].setAttribute("tabindex", "0");
    if (take) cells[row][column].focus();
  }

  /** @param {EventTarget | null} target @returns {[number, number] | null} */
  function placed(target) {
    const found = /** @type {HTMLElement | null} */ (target instanceof Element ? target.closest("[data-row]") : null);
    return found && element.contains(found) ? [Number(found.dataset.row), Number(found.dataset.column)] : null;
  }

  element.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
    const place = placed(event.target);
    if (!place || event.button) return;
    move(...place, true);
    stroke = place.join(".");
    painted(placesOf(...place), true);
    event.preventDefault();
  });
  element.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    if (!stroke || !(event.buttons & 1)) return;
    const place = placed(document.elementFromPoint(event.clientX, event.clientY));
    if (!place || !place[0] || !place[1] || place.join(".") === stroke) return;
    stroke = place.join(".");
    painted(placesOf(...place), false);
  });
  if (looked) {
    for (const name of ["pointerover", "focusin"]) element.addEventListener(name, event => looked(saidAt(event.target)));
    element.addEventListener("pointerleave", () => looked(saidAt(document.activeElement)));
    element.addEventListener("focusout", () => looked(""));
  }
  /** @param {EventTarget | null} target */
  const saidAt = target => (placed(target) && /** @type {Element} */ (target).closest(".head")?.getAttribute("aria-label")) || "";
  window.addEventListener("pointerup", () => { stroke = ""; });
  element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const place = placed(event.target);
    if (!place || event.ctrlKey || event.metaKey || event.altKey) return;
    const [row, column] = place;
    const step = /** @type {Record<string, [number, number]>} */ ({ArrowUp: [row - 1, column], ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], Home: [row, 1], End: [row, data.heads], PageUp: [1, column], PageDown: [data.layers, column]})[event.key];
    if (step) {
      if (cells[step[0]]?.[step[1]]) move(...step, true);
    } else if (event.key === "Enter" || event.key === " ") painted(placesOf(row, column), true);
    else if (event.key.length === 1 || event.key === "Escape") {
      letter(event.key);
      return;
    } else return;
    event.preventDefault();
  });

  return {
    element,
    /** @param {GridData} next */
    update(next) {
      data = next;
      if (`${data.layers} ${data.heads}` !== size) build();
      const largest = largestOf(data);
      const maps = data.show === "maps" && data.pictures ? [data.pictures, data.theme, size] : [];
      const repaint = maps.some((each, index) => each !== onCanvas[index]);
      onCanvas = maps;
      for (const row of cells.slice(1)) for (const each of row.slice(1)) draw(each, data, largest, repaint);
    },
    /** The grid as one drawing, with numbers of layers and heads. */
    toSvg: () => drawing(cells, data),
  };
}

/** The largest number that the grid shows. @param {GridData} data */
export function largestOf(data) {
  const numbers = data.show === "moved" ? (data.moved ?? []).flat() : [...data.worth.values()].map(effect => effect.difference);
  return Math.max(1e-9, ...numbers.map(Math.abs));
}

/** @type {WeakMap<Element, string>} All that a cell shows. */
const drawn = new WeakMap();

/** @param {any} cell @param {GridData} data @param {number} largest @param {boolean} repaint */
function draw(cell, data, largest, repaint) {
  const [layer, head] = [Number(cell.dataset.row) - 1, Number(cell.dataset.column) - 1];
  const place = `${layer}.${head}`;
  const change = data.changes.get(place);
  const [canvas, sign] = cell.children;
  const number = data.show === "moved" ? data.moved?.[layer]?.[head] : data.worth.get(place)?.difference;
  const effect = data.show === "worth" ? data.worth.get(place) : undefined;
  const shown = JSON.stringify([data.show, data.theme, Boolean(data.pictures), number, number === undefined ? 0 : largest, effect, change, place === data.at, data.moved?.[layer]?.[head], Boolean(data.described)]);
  if (!repaint && shown === drawn.get(cell)) return; // Most answers change few cells, and the browser shares the processor.
  drawn.set(cell, shown);
  canvas.hidden = data.show !== "maps" || !data.pictures;
  if (repaint && !canvas.hidden && data.pictures) paint(canvas, data.pictures, layer * data.heads + head, data.theme);
  cell.style.backgroundColor = data.show === "maps" || number === undefined ? "" : css(colourOf(number / largest, data));
  cell.classList.toggle("faint", Boolean(effect && effect.low !== null && effect.low <= 0 && (effect.high ?? 0) >= 0));
  cell.classList.toggle("waiting", data.show !== "maps" && number === undefined);
  for (const kind of ["silenced", "flattened", "scaled", "averaged"]) cell.classList.toggle(kind, Boolean(change) && kindOf(change?.kind ?? "x").class === kind);
  sign.textContent = change ? glyph(change) : "";
  if (place === data.at) cell.setAttribute("aria-current", "true");
  else cell.removeAttribute("aria-current");
  const said = [`layer ${layer} head ${head}`, !canvas.hidden && data.pictures && `largest weight ${percent(most(data.pictures, layer * data.heads + head))}`, change && (change.kind === "s" ? `scaled by ${change.factor}` : kindOf(change.kind).done),
    data.moved && (data.said ?? (value => `moved ${percent(value)}`))(data.moved[layer][head]), effect && (data.said ?? (value => `moves predictions by ${value.toFixed(3)} nats`))(effect.difference),
    data.described?.words(layer, head)].filter(Boolean).join(", ");
  cell.setAttribute("aria-label", said);
  cell.title = said;
}

/** The largest weight of a map, 0 to 1. @param {import("./maps.js").Maps} maps @param {number} index */
const most = (maps, index) => maps.cells.subarray(index * maps.rows * maps.columns, (index + 1) * maps.rows * maps.columns).reduce((a, b) => Math.max(a, b), 0) / maps.most;

/** @param {number} share @param {GridData} data */
const colourOf = (share, data) => (data.show === "moved" ? magnitude(share, data.theme) : signed(-share, data.theme));

/** @param {any[][]} cells @param {GridData} data */
function drawing(cells, data) {
  const [width, height] = [LABEL + data.heads * (CELL + 2), LABEL + data.layers * (CELL + 2)];
  const ink = getComputedStyle(document.documentElement).getPropertyValue("--text");
  const result = svg("svg", {viewBox: `0 0 ${width} ${height}`, fill: ink, "font-family": "sans-serif", "font-size": 12, "text-anchor": "middle"});
  for (const layer of range(data.layers)) result.append(svg("text", {x: LABEL / 2, y: LABEL + layer * (CELL + 2) + CELL / 2 + 4}, layer));
  for (const head of range(data.heads)) result.append(svg("text", {x: LABEL + head * (CELL + 2) + CELL / 2, y: LABEL - 8}, head));
  for (const layer of range(data.layers)) {
    for (const head of range(data.heads)) {
      const cell = cells[layer + 1][head + 1];
      const [x, y] = [LABEL + head * (CELL + 2), LABEL + layer * (CELL + 2)];
      const style = getComputedStyle(cell);
      const canvas = cell.querySelector("canvas");
      result.append(svg("rect", {x, y, width: CELL, height: CELL, fill: style.backgroundColor, "fill-opacity": style.opacity, stroke: style.borderTopColor}));
      if (!canvas.hidden) {
        result.append(svg("image", {x: x + 1, y: y + 1, width: CELL - 2, height: CELL - 2, href: canvas.toDataURL(), preserveAspectRatio: "none", "image-rendering": "pixelated"}));
      }
      const sign = cell.querySelector(".glyph").textContent;
      if (sign) result.append(svg("text", {x: x + CELL / 2, y: y + CELL / 2 + 7, "font-size": 20, "font-weight": "bold", fill: style.borderTopColor}, sign));
    }
  }
  return result;
}

/** @param {number} count */
const range = count => [...Array(count).keys()];
