// The sentences that the page begins with: examples to choose from, and the texts over which heads are described.

/** @type {string[]} */
export const EXAMPLES = ["Paris is the capital of [MASK].", "The doctor said that [MASK] would call tomorrow.", "The keys to the cabinet [MASK] on the table.",
  "He put the milk back into the [MASK].", "The cat sat on the mat because it was tired."];
