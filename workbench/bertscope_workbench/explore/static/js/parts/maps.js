// Attention maps as they come from the page's server, and as pixels.

import {magnitude} from "../colours.js";

/** @typedef {{first: number[], maps: number, rows: number, columns: number, cell_size: number, row_range: number[], column_range: number[], type: string, data: string}} Sent */
/** @typedef {{maps: number, rows: number, columns: number, cellSize: number, rowRange: number[], columnRange: number[], first: number[], cells: Uint8Array | Float32Array, most: number}} Maps
 * `cells`: [maps, rows, columns]; `most`: the value that is weight 1. */

/** @param {Sent} sent @returns {Maps} */
export function decode(sent) {
  const bytes = Uint8Array.from(atob(sent.data), character => character.charCodeAt(0));
  const cells = sent.type === "uint8" ? bytes : new Float32Array(bytes.buffer);
  return {maps: sent.maps, rows: sent.rows, columns: sent.columns, cellSize: sent.cell_size, rowRange: sent.row_range,
    columnRange: sent.column_range, first: sent.first, cells, most: sent.type === "uint8" ? 255 : 1};
}

/** Paints one map, each against its own largest weight. @param {HTMLCanvasElement} canvas @param {Maps} maps @param {number} index @param {"light" | "dark"} theme */
export function paint(canvas, maps, index, theme) {
  const size = maps.rows * maps.columns;
  const cells = maps.cells.subarray(index * size, (index + 1) * size);
  let largest = 0;
  for (const cell of cells) largest = Math.max(largest, cell);
  const table = palette(theme);
  canvas.width = maps.columns;
  canvas.height = maps.rows;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = context.createImageData(maps.columns, maps.rows);
  const pixels = new Uint32Array(image.data.buffer);
  const scale = largest ? 255 / largest : 0;
  for (let place = 0; place < size; place++) pixels[place] = table[Math.round(cells[place] * scale)];
  context.putImageData(image, 0, 0);
}

/** @type {Partial<Record<"light" | "dark", Uint32Array>>} */
const palettes = {};

/** The 256 colours of a theme, as they lie in memory. @param {"light" | "dark"} theme */
function palette(theme) {
  return palettes[theme] ??= Uint32Array.from({length: 256}, (_, index) => {
    const [red, green, blue] = magnitude(index / 255, theme);
    return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  });
}
