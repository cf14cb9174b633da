// node tour.js [HOST:PORT]: a cloze, attention maps, an error with its details, a request that is checked first, and a deadline.
import grpc from "@grpc/grpc-js";

import { attentionMaps } from "./attention.js";
import { ask, connect, within } from "./connect.js";
import { details, retryAfter } from "./errors.js";
import { violations } from "./validate.js";

const clients = connect(process.argv[2] ?? "127.0.0.1:50051");
const { ClozeService, AttentionService } = clients;

const { results, provenance } = await ask(ClozeService, "fillMask", { texts: ["Paris is the capital of [MASK]."], topK: 3 });
for (const { token, probability } of results[0].masks[0].predictions) {
  console.log(`cloze: ${token} ${probability.toFixed(4)}`);
}
console.log(`answered by ${provenance.model}`);

const wanted = { inputs: [{ text: "The cat sat." }, { text: "A dog slept." }], layers: [1], heads: [8] };
for await (const { tokens, shape, maps } of attentionMaps(AttentionService, wanted, within(60))) {
  const row = maps.subarray(tokens.length, 2 * tokens.length); // what the token after [CLS] attends to
  const strongest = tokens[row.indexOf(Math.max(...row))];
  console.log(`attention [${shape}]: "${tokens[1].text}" attends most to "${strongest.text}"`);
}

try {
  await ask(ClozeService, "fillMask", { texts: ["No mask in here."] });
} catch (error) {
  const { ErrorInfo, BadRequest } = details(error);
  console.log(`error: ${grpc.status[error.code]} ${ErrorInfo.reason}: ${BadRequest.fieldViolations[0].description}`);
  console.log(`worth trying again: ${retryAfter(error) === undefined ? "no" : `in ${retryAfter(error)} s`}`);
}

const wrong = { texts: ["The [MASK] barked."], maxPieces: 11 };
for (const { field, problem } of violations("FillMaskRequest", wrong)) console.log(`found here: ${field} ${problem}`);
try {
  await ask(ClozeService, "fillMask", wrong);
} catch (error) {
  console.log(`found there: ${details(error).BadRequest.fieldViolations[0].description}`);
}

try {
  await ask(ClozeService, "fillMask", { texts: ["Too [MASK]."] }, within(0.0001));
} catch (error) {
  console.log(`deadline: ${grpc.status[error.code]}`);
}

for (const client of Object.values(clients)) client.close();
