// The sentences that the page begins with: examples to choose from, and the texts over which heads are described.

/** @type {string[]} */
export const EXAMPLES = ["The keys to the cabinet [MASK] on the table.", "The key to the cabinet [MASK] on the table.", "He is a professional football [MASK].",
  "The roads to the village [MASK] closed.", "The cat sat on the mat because it was tired."];
