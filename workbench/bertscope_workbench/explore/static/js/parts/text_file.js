// Reads a file of text that somebody opens.

/** The text of a file; null, and a line that says why, for one that is too long or not UTF-8.
 * @param {File} file @param {number} most Bytes. @param {{note: (text: string) => void}} status */
export async function textOf(file, most, status) {
  const written = (/** @type {number} */ bytes) => (most < 1e6 ? `${Math.ceil(bytes / 1000)} kB` : `${Math.ceil(bytes / 1e6)} MB`);
  if (file.size > most) {
    status.note(`${file.name} has ${written(file.size)}; the page reads files of at most ${written(most)}.`);
    return null;
  }
  try {
    return new TextDecoder("utf-8", {fatal: true}).decode(await file.arrayBuffer());
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    status.note(`${file.name} is not UTF-8; save the file as UTF-8.`);
    return null;
  }
}
