// Reads what `bertscope probe --json` and `--output` wrote, and writes the curves compactly for a link.

/** @typedef {{layer: number, accuracy: number, low: number | null, high: number | null, control: number | null, loss: number | null}} Row */
/** @typedef {{name: string, model: string, scored: string, rows: Row[]}} Probe */

const NUMBERS = /** @type {const} */ (["layer", "accuracy", "low", "high", "control", "loss"]);
const LAYERS = 128;
export const FILE_BYTES = 1 << 20;
const DIGITS = 6;

/** A file that holds no probes; its message says why, and what to open instead. */
export class ProbeFileError extends Error {}

/** Reads a file. @param {File} file @returns {Promise<Probe>} */
export async function readProbe(file) {
  if (file.size > FILE_BYTES) throw new ProbeFileError(`${file.name} is larger than 1 MiB, and files of probes are not`);
  const kind = file.name.toLowerCase().split(".").pop() ?? "";
  if (kind === "parquet") throw new ProbeFileError(`${file.name}: the page reads no Parquet; write the result as .csv, .tsv or .jsonl, or with --json`);
  try {
    return probeOf(await file.text(), kind, file.name);
  } catch (error) {
    if (error instanceof ProbeFileError) throw new ProbeFileError(`${file.name} ${error.message}; open what bertscope probe wrote with --json or --output`);
    throw error;
  }
}

/** @param {string} text @param {string} kind @param {string} name @returns {Probe} */
function probeOf(text, kind, name) {
  if (kind === "csv" || kind === "tsv") return {name, model: "", scored: "", rows: rowsOf(table(text, kind === "csv" ? "," : "\t"))};
  if (kind === "jsonl") return {name, model: "", scored: "", rows: rowsOf(text.split("\n").filter(line => line.trim()).map(json))};
  if (kind !== "json") throw new ProbeFileError("is no .json, .jsonl, .csv or .tsv");
  const found = json(text);
  if (!found || typeof found !== "object" || !Array.isArray(found.layers)) throw new ProbeFileError("has no list \"layers\"");
  return {name, model: words(found.model), scored: words(found.scored), rows: rowsOf(found.layers)};
}

/** @param {unknown} value */
const words = value => (typeof value === "string" ? value.slice(0, 200).replace("models/", "") : "");

/** @param {string} text */
function json(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new ProbeFileError("is not valid JSON");
  }
}

/** Rows of a table of numbers. @param {string} text @param {string} mark */
function table(text, mark) {
  const [head, ...lines] = text.replace(/^\ufeff/, "").split(/\r?\n/).filter(Boolean).map(line => line.split(mark).map(cell => cell.replace(/^"(.*)"$/, "$1")));
  return lines.map(cells => Object.fromEntries((head ?? []).map((name, index) => [name, cells[index]])));
}

/** @param {any[]} given @returns {Row[]} */
function rowsOf(given) {
  if (!given.length) throw new ProbeFileError("has no rows");
  if (given.length > LAYERS) throw new ProbeFileError(`has ${given.length} rows, and probes are of ${LAYERS} layers at most`);
  const rows = given.map((row, index) => {
    const read = Object.fromEntries(NUMBERS.map(name => [name, number(row?.[name])]));
    for (const name of ["layer", "accuracy"]) if (read[name] === null) throw new ProbeFileError(`has no number "${name}" in row ${index + 1}`);
    if (Number(read.accuracy) < 0 || Number(read.accuracy) > 1) throw new ProbeFileError(`has an accuracy outside 0 to 1 in row ${index + 1}`);
    if (!Number.isInteger(read.layer) || Number(read.layer) < 0) throw new ProbeFileError(`has a layer that is no whole number in row ${index + 1}`);
    return /** @type {Row} */ (/** @type {unknown} */ (read));
  });
  return rows.sort((a, b) => a.layer - b.layer);
}

/** @param {unknown} value */
function number(value) {
  const read = typeof value === "number" ? value : typeof value === "string" && value.trim() ? Number(value) : NaN;
  return Number.isFinite(read) ? read : null;
}

/** Writes probes for the fragment of a link. @param {Probe[]} probes */
export const written = probes => (probes.length ?
  JSON.stringify(probes.map(({name, model, scored, rows}) => [name, model, scored, rows.map(row => NUMBERS.map(key => (row[key] === null ? null : Number(Number(row[key]).toPrecision(DIGITS)))))])) : null);

/** Reads what `written` wrote; what is broken is left out. @param {string | undefined} text @returns {Probe[]} */
export function restored(text) {
  try {
    return JSON.parse(text || "[]").map((/** @type {any} */ [name, model, scored, rows]) => ({name: words(name), model: words(model), scored: words(scored),
      rows: rowsOf(rows.map((/** @type {any[]} */ values) => Object.fromEntries(NUMBERS.map((key, index) => [key, values[index]]))))}));
  } catch {
    return [];
  }
}
