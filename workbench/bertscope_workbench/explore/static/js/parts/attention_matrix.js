// The attention of one head as a matrix: rows attend to columns. Of long texts a picture, of which a part can be looked into.

import {h, replace, svg} from "../dom.js";
import {percent} from "../format.js";
import {paint} from "./maps.js";

const SIDE = 360;
const NAME = 86;
const LETTER_PIXELS = 12;
const MOST_LETTERS = 11;

/**
 * Makes the drawing.
 * @param {(row: number) => void} chosen Gets the index of the token in the row that was clicked.
 * @param {(rows: [number, number], columns: [number, number]) => void} zoomed Gets the window of a picture to look into.
 * @param {(text: string) => void} read Gets what is under the pointer.
 */
export function create(chosen, zoomed, read) {
  const element = svg("svg", {class: "attention-matrix", viewBox: `0 0 ${SIDE + NAME + 4} ${SIDE + NAME + 4}`, tabindex: "0", role: "img", "aria-label": "Attention matrix, empty"});
  const canvas = h("canvas");
  /** @type {import("./attention_lines.js").HeadData} */
  let data;
  /** @type {number[]} */ let rows = [];
  /** @type {number[]} */ let columns = [];
  let drawn = false;

  element.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const place = at(event);
    read(place ? said(...place) : "");
  });
  element.addEventListener("pointerleave", () => read(""));
  element.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const place = at(event);
    if (place) take(...place);
  });
  element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const step = /** @type {Record<string, number>} */ ({ArrowUp: -1, ArrowDown: 1})[event.key];
    if (!step || !drawn || event.ctrlKey || event.metaKey || event.altKey) return;
    const now = rows.findIndex(row => unit(row, 0) === data.row || covers(row));
    const next = rows[Math.min(Math.max(now + step, 0), rows.length - 1)];
    chosen(unit(next, 0));
    event.preventDefault();
  });

  return {
    element,
    toSvg: () => (drawn ? element : null),
    /** @param {import("./attention_lines.js").HeadData} next */
    update(next) {
      data = next;
      const {map} = data;
      rows = visible(map.rows, map.rowRange[0]);
      columns = visible(map.columns, map.columnRange[0]);
      paint(canvas, part(map), 0, data.theme);
      const size = SIDE / Math.max(rows.length, columns.length, 1);
      const [wide, high] = [columns.length * size, rows.length * size];
      replace(element,
        svg("image", {x: NAME, y: NAME, width: wide, height: high, href: canvas.toDataURL(), preserveAspectRatio: "none", "image-rendering": "pixelated"}),
        svg("rect", {class: "frame", x: NAME, y: NAME, width: wide, height: high, fill: "none"}),
        ...names(rows, size, 0), ...names(columns, size, 1), mark(size, wide));
      element.setAttribute("aria-label", `Attention matrix of ${data.tokens.length} tokens; the row of ${data.tokens[data.row]?.text ?? ""} is marked; arrows up and down move it`);
      drawn = true;
    },
  };

  /** The cells that are shown: all, or those without special tokens. @param {number} count @param {number} first */
  function visible(count, first) {
    const all = [...Array(count).keys()];
    if (data.special || data.map.cellSize > 1) return all;
    return all.filter(index => !data.tokens[first + index]?.special);
  }

  /** @param {import("./maps.js").Maps} map */
  function part(map) {
    if (rows.length === map.rows && columns.length === map.columns) return map;
    const cells = Float32Array.from(rows.flatMap(row => columns.map(column => map.cells[row * map.columns + column])));
    return {...map, rows: rows.length, columns: columns.length, cells};
  }

  /** The first token of a cell. @param {number} cell @param {0 | 1} axis */
  function unit(cell, axis) {
    return (axis ? data.map.columnRange[0] : data.map.rowRange[0]) + cell * data.map.cellSize;
  }

  /** @param {number} row */
  function covers(row) {
    return data.row >= unit(row, 0) && data.row < unit(row, 0) + data.map.cellSize;
  }

  /** @param {number[]} cells @param {number} size @param {0 | 1} axis */
  function names(cells, size, axis) {
    const each = Math.max(1, Math.ceil(LETTER_PIXELS / size));
    return cells.filter((_, order) => order % each === 0).map((cell, order) => {
      const token = data.tokens[unit(cell, axis)];
      const place = NAME + order * each * size + size / 2 + 4;
      const attributes = axis ? {x: 0, y: 0, transform: `translate(${place} ${NAME - 5}) rotate(-90)`} : {x: NAME - 5, y: place, "text-anchor": "end"};
      return svg("text", {...attributes, class: token?.special ? "special" : ""}, short(token?.text ?? ""));
    });
  }

  /** @param {number} size @param {number} wide */
  function mark(size, wide) {
    const order = rows.findIndex(covers);
    return order >= 0 && svg("rect", {class: "row-mark", x: NAME - 1, y: NAME + order * size - 1, width: wide + 2, height: size + 2, fill: "none"});
  }

  /** @param {MouseEvent} event @returns {[number, number] | null} */
  function at(event) {
    if (!drawn) return null;
    const box = element.getBoundingClientRect();
    const scale = (SIDE + NAME + 4) / box.width;
    const size = SIDE / Math.max(rows.length, columns.length, 1);
    const row = rows[Math.floor(((event.clientY - box.top) * scale - NAME) / size)];
    const column = columns[Math.floor(((event.clientX - box.left) * scale - NAME) / size)];
    return row === undefined || column === undefined ? null : [row, column];
  }

  /** @param {number} row @param {number} column */
  function said(row, column) {
    const share = data.map.cells[row * data.map.columns + column] / data.map.most;
    const [from, to] = [data.tokens[unit(row, 0)]?.text, data.tokens[unit(column, 1)]?.text];
    return data.map.cellSize > 1 ? `near ${from} and ${to}: up to ${percent(share)}; click to look into it` : `${from} looks at ${to}: ${percent(share)}`;
  }

  /** @param {number} row @param {number} column */
  function take(row, column) {
    chosen(unit(row, 0));
    if (data.map.cellSize > 1) zoomed(around(unit(row, 0)), around(unit(column, 1)));
  }

  /** @param {number} middle @returns {[number, number]} */
  function around(middle) {
    const half = 32;
    const first = Math.max(0, Math.min(middle - half, data.tokens.length - 2 * half));
    return [first, Math.min(data.tokens.length, first + 2 * half)];
  }
}

/** @param {string} text */
const short = text => ([...text].length > MOST_LETTERS ? [...text].slice(0, MOST_LETTERS - 1).join("") + "…" : text);
