// Clients of a bertscope server, made from its .proto files while the program starts: nothing is generated.
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

const PROTOS = fileURLToPath(new URL("../../protos", import.meta.url));
// google/api/annotations.proto, which ours import, comes with protobufjs.
const GOOGLE = path.dirname(createRequire(import.meta.url).resolve("protobufjs/package.json"));

const FILES = ["ablation", "attention", "benchmark", "classification", "cloze", "model"].map((name) => `bertscope/v1/${name}.proto`);
const definition = protoLoader.loadSync(FILES, {
  includeDirs: [PROTOS, GOOGLE],
  enums: String,
  longs: Number, // no count or offset comes near 2^53
  defaults: true, // a 0 is not sent: without this, layer 0 would be undefined
  oneofs: true, // response.event names the field that is set
});
const { v1 } = grpc.loadPackageDefinition(definition).bertscope;

// What only reads may be asked again while the server restarts. Loads, and calls that write, are not in this list.
const SERVICE_CONFIG = {
  methodConfig: [
    {
      name: [
        { service: "bertscope.v1.ClozeService" },
        { service: "bertscope.v1.ClassificationService" },
        { service: "bertscope.v1.AttentionService" },
        { service: "bertscope.v1.AblationService", method: "SweepHeads" },
        { service: "bertscope.v1.AblationService", method: "RankHeads" },
        { service: "bertscope.v1.ModelService", method: "ListModels" },
        { service: "bertscope.v1.ModelService", method: "GetModel" },
      ],
      retryPolicy: {
        maxAttempts: 4,
        initialBackoff: "0.1s",
        maxBackoff: "2s",
        backoffMultiplier: 3,
        retryableStatusCodes: ["UNAVAILABLE"],
      },
    },
  ],
};

const OPTIONS = {
  "grpc.service_config": JSON.stringify(SERVICE_CONFIG),
  "grpc.max_receive_message_length": -1, // the default, 4 MiB, is less than a long answer
};

/** The clients of one server, by the names of their services ("ClozeService"). */
export function connect(target, credentials = grpc.credentials.createInsecure()) {
  const services = Object.entries(v1).filter(([name]) => name.endsWith("Service"));
  return Object.fromEntries(services.map(([name, Service]) => [name, new Service(target, credentials, OPTIONS)]));
}

/** Call options: the server drops what is not answered after so many seconds. */
export function within(seconds) {
  return { deadline: Date.now() + seconds * 1000 };
}

/** A call with one answer, as a promise: `await ask(clients.ClozeService, "fillMask", request)`. */
export function ask(client, method, request, options = within(60)) {
  return new Promise((resolve, reject) => {
    client[method](request, options, (error, reply) => (error ? reject(error) : resolve(reply)));
  });
}
