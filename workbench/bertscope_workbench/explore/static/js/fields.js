// What the page's messages call the fields of questions, and the calls that answer them: by the labels of its own inputs.

/** The label of a field's input, by its path in a request without indices, or by one of the path's names. @type {Record<string, string>} */
export const LABELS = {
  text: "Sentence", texts: "Sentences", rows: "Sentences", inputs: "Sentences", contents: "The text or file", conllu: "The text or file", suffix: "Read as", columns: "Columns",
  right: "Right sentences", wrong: "Other sentences", clean: "Clean", corrupted: "Corrupted", answer: "Answer", "pairs.target.mask.other": "Instead of", "inputs.target.mask.answer": "Why", other: "And not",
  candidates: "Answer", other_model: "The other model", interventions: "Changed heads", changes: "Changed heads", reference_texts: "Reference texts", site_interventions: "The place",
  sites: "Change", site: "Change", direction: "Direction", normalisation: "Final normalisation", maps: "The head shown", detail: "The head shown", heads: "Head", activations: "Number",
  unit: "Unit", directions: "Direction", nearest: "Word in context", word: "The word in it", like: "A sentence", words: "Only at this word", data: "The file of probes or codes", first: "The first token",
  source: "Hub id, or a folder or file", model_id: "Name", steps: "By", bits: "Bits", layers: "Layers to keep", share: "Share",
};

/** Where the page has what other calls answer. */
const CALLS = /** @type {Record<string, string>} */ ({ScoreRelations: "Sentences, Relations", DescribeAttention: "Sentences, kinds of maps", CompareRepresentations: "the command bertscope cka", MODE_MEAN: "averages"});

const PATH = /^([a-z_]+(?:\[\d+\])?(?:\.[a-z_]+(?:\[\d+\])?)*)(?=:| (?:is|has|must|needs|changes|names)\b| ['"])/;

/** A message in the words of the page. @param {string} message */
export function said(message) {
  const calls = message.replace(/\b[A-Z][A-Za-z_]+\b/g, name => CALLS[name] ?? name).replaceAll("models/", "");
  return calls.replace(PATH, path => {
    const plain = path.replace(/\[\d+\]/g, "");
    const known = [plain, ...plain.split(".")].find(name => name in LABELS);
    return known ? `"${LABELS[known]}"` : path;
  });
}
