// The numbers that the page shows: name, unit, and meaning in a line. Titles, legends and the help take them from here alone.

/** @typedef {{name: string, unit: string, meaning: string, object?: string}} Known `object`: for a statistic of heads, what is attended to. */

/** @param {string} name @param {string} unit @param {string} meaning @param {string} [object] @returns {Known} */
const known = (name, unit, meaning, object) => ({name, unit, meaning, object});

/** @type {Record<string, Known>} */
export const STATISTICS = {
  first_special: known("attention on the first special token", "share", "0 to 1; [CLS] in BERT: heads that find nothing to look at look there", "the first special token"),
  separators: known("attention on separators", "share", "0 to 1; all of [SEP] together", "separators"),
  largest_separator: known("largest attention on a separator", "share", "0 to 1; the separator that gets most"),
  self: known("attention on the token itself", "share", "0 to 1; the diagonal of the map", "the token itself"),
  previous: known("attention on the token before", "share", "0 to 1; the diagonal below the main one", "the previous token"),
  next: known("attention on the token after", "share", "0 to 1; the diagonal above the main one", "the next token"),
  punctuation: known("attention on punctuation", "share", "0 to 1; on all tokens that are punctuation", "punctuation"),
  same_text: known("attention within the own text", "share", "0 to 1; of pairs of texts, on the text that the token is in"),
  other_text: known("attention on the other text", "share", "0 to 1; of pairs of texts, on the text that the token is not in"),
  entropy: known("entropy of rows", "nats", "0 is all attention on one token; the logarithm of the number of tokens is the same on all"),
  first_special_entropy: known("entropy of the first special token's row", "nats", "0 is all its attention on one token"),
  confidence: known("largest weight of a row", "share", "0 to 1; the mean over tokens of the most that each gives to one"),
  distance: known("mean distance", "tokens", "how far away a token looks, weighted by attention"),
};

/** @type {Record<string, Known>} */
export const NUMBERS = {
  ...STATISTICS,
  probability: known("probability", "%", "how likely the model finds the word in the place of the mask; over all words of its vocabulary they add up to 100 %"),
  first: known("P", "probability", "how likely the model finds its first prediction, 0 to 1"),
  loss: known("loss", "nats", "-ln of the probability of the gold word or label; 0 is best"),
  score: known("score", "nats per piece", "pseudo-log-likelihood; the nearer to 0, the likelier the sentence"),
  tokens: known("tokens", "count", "what the model reads, special tokens included"),
  weight: known("attention", "%", "the share of a token's attention that goes to another token; those of a token add up to 100 %"),
  maps: known("map of a head", "weight", "row attends to column; each map is coloured against its own largest weight"),
  moved: known("moved", "% of its attention", "how much of a head's attention went elsewhere with the changes"),
  worth: known("worth", "nats", "how far predictions move without the head: Kullback-Leibler divergence, 0 is not at all"),
  factor: known("factor", "times", "what a head adds is multiplied by it: 0 silences, 1 changes nothing"),
  logits: known("value of a word", "logits", "what the word adds to the score of the prediction; below 0 it speaks against it"),
  milliseconds: known("time", "ms", "from the question until all of the answer is drawn"),
  divergence: known("distance of a head", "nats", "Jensen-Shannon divergence of its attention in the two, mean over the tokens; 0 is the same, 0.693 the most possible"),
  kinds: known("kinds of maps", "share", "how many of a layer's maps, over all sentences, are of each class"),
  accuracy: known("accuracy", "%", "how often it is right; its 95 % interval holds the accuracy of all such items in 95 of 100 samples"),
  log_likelihood: known("difference", "nats", "log-likelihood of the right sentence less that of the other; above 0 the right one is likelier"),
  found: known("found", "%", "how often the head attends most to the linked word, of all words"),
  offset: known("by distance", "% (words)", "how often the word at one fixed distance is the linked one: what position alone finds"),
  entropy_lens: known("entropy", "nats", "how undecided the prediction is; 0 is one word alone"),
  kl: known("KL to the last layer", "nats", "how far the prediction is from the last layer's; 0 is the same"),
  rank: known("rank of the answer", "#", "its place among all words of the vocabulary, by probability; #1 is the likeliest"),
  recovery: known("share of the answer", "share", "how much of the other run's answer comes back with this place alone; 1 is all, 0 nothing"),
  logit: known("logit", "logits", "the score of the answer before probabilities are made; with a second word, the difference of both"),
  weights: known("weights", "bytes", "what the parameters take in memory"),
  places: known("places", "count", "the words that the unit has a value at; special tokens are none"),
  head_value: known("attention", "share", "0 to 1: the most that the word gives to one other word, special tokens left out; of a word of several pieces the mean"),
  activation: known("activation", "activation", "what the neuron or code gives at the word, the mean over its pieces; it has no unit of its own, and neurons may be below 0"),
  tagged: known("tags in common", "%", "of the sentences with a place among the 100 best, how many have the tag there, one place each; by chance is the same of words that were drawn"),
  above: known("standing out", "standard deviations", "how far the five largest values of a neuron are above the mean of all"),
  class_score: known("score", "logits", "the probe's score of the class before probabilities are made; above the other classes' scores the probe says it"),
  cosine: known("cosine", "cosine", "-1 to 1: how alike the direction of the state at the word is to that of the given word"),
  shape: known("layers × heads", "count", "all layers, and the heads of each"),
  parameters: known("parameters", "count", "the numbers that the model learned; k is 1,000, M a million"),
  longest: known("longest text", "tokens", "special tokens included; a longer text is cut, or rejected"),
};

/** What a number is, in a sentence. @param {string} key Of `NUMBERS`. */
export const sentence = key => `${NUMBERS[key].name}, ${NUMBERS[key].unit}: ${NUMBERS[key].meaning}`;

/** Attributes of an element that shows a number: its title, and the key by which the help finds it. @param {string} key @param {string} [said] What the title says first. */
export const means = (key, said = "") => ({title: `${said && `${said}. `}${sentence(key)}`, "data-number": key});
