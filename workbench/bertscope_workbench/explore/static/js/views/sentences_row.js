// The rows of the Sentences view.

/**
 * A sentence. `found` is what the model says of it, `times` how often that was set, `of` the row that it is a copy of.
 * @typedef {{id: number, line: number | null, text: string, text_pair?: string, answers: string[], label?: string, more?: Record<string, any>,
 *   found: any, times: number, copies: Row[], of: Row | null, editing: boolean, chosen: boolean}} Row
 */

let rows = 0;

/** Makes a row of what a file has. @param {any} fields @param {Row | null} [of] @returns {Row} */
export const rowOf = (fields, of = null) => ({line: null, answers: [], ...fields, id: rows++, found: null, times: 0, copies: [], of, editing: false, chosen: false});

/** The fields of a row that the model is asked about. @param {Row} row */
export const asked = ({text, text_pair = "", answers, label = ""}) => ({text, text_pair, answers, label});

/** @param {Row} row */
export const textOf = ({text, text_pair}) => (text_pair ? `${text} | ${text_pair}` : text);

/** Sets what the model says of a row; null while nothing is known. @param {Row} row @param {any} found */
export function answer(row, found) {
  row.found = found;
  row.times++;
}

/** The words that are right for the first mask, or the label. @param {Row} row */
export const goldOf = ({answers, label}) => answers.join(" | ") || (label ?? "");

/** @param {Row} row */
export const outcome = ({found}) => (found?.left_out ? "rejected" : known(found?.right) ? (found.right ? "right" : "wrong") : null);

/** @param {any} value */
export const known = value => value !== null && value !== undefined;
