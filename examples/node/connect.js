// Clients of a bertscope server, made from its descriptors while the program starts: no code is generated.
import { readFileSync } from "node:fs";

import grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";
import descriptor from "protobufjs/ext/descriptor/index.js";

// The contract, with all that it imports; `make protos` writes it beside this file.
const contract = descriptor.FileDescriptorSet.decode(readFileSync(new URL("bertscope.binpb", import.meta.url)));

/** Give the fields of a message, and of those within it, the names that JavaScript and JSON use: topK for top_k. */
function nameForJavaScript(message) {
  for (const field of message.field) field.name = field.jsonName;
  message.nestedType.forEach(nameForJavaScript);
}
for (const file of contract.file) file.messageType.forEach(nameForJavaScript);

const definition = protoLoader.loadFileDescriptorSetFromObject(contract.toJSON(), {
  enums: String,
  longs: Number, // no count or offset comes near 2^53
  defaults: true, // a 0 is not sent: without this, layer 0 would be undefined
  oneofs: true, // response.event names the field that is set
});
const { v1 } = grpc.loadPackageDefinition(definition).bertscope;

// What only reads may be asked again while the server restarts; the contract declares of each method whether it does.
const NO_SIDE_EFFECTS = 1; // of google.protobuf.MethodOptions.IdempotencyLevel
const readsOnly = contract.file.flatMap((file) =>
  file.service.flatMap(({ name, method: methods }) =>
    methods
      .filter((method) => method.options?.idempotencyLevel === NO_SIDE_EFFECTS)
      .map((method) => ({ service: `${file.package}.${name}`, method: method.name })),
  ),
);

const SERVICE_CONFIG = {
  // Of several addresses, each call goes to the next. gRPC for Node does not watch their health: a server that still starts says
  // UNAVAILABLE, and the next attempt goes to another.
  loadBalancingConfig: [{ round_robin: {} }],
  methodConfig: [
    {
      name: readsOnly,
      retryPolicy: {
        maxAttempts: 5, // the most that gRPC makes
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
  // Its own pauses between attempts to connect grow to two minutes: a restarted server would stay unknown for as long.
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 1000,
  "grpc.max_receive_message_length": -1, // the default, 4 MiB, is less than a long answer
};

/**
 * The clients of a server, by the names of their services ("ClozeService"). The target is HOST:PORT, or several servers' addresses:
 * "ipv4:10.0.0.1:50051,10.0.0.2:50051".
 */
export function connect(target, credentials = grpc.credentials.createInsecure()) {
  const services = Object.entries(v1).filter(([name]) => name.endsWith("Service"));
  return Object.fromEntries(services.map(([name, Service]) => [name, new Service(target, credentials, OPTIONS)]));
}

const readingPaths = new Set(readsOnly.map(({ service, method }) => `/${service}/${method}`));

/** Whether a call changes nothing, and so may be sent again. */
export function onlyReads(client, method) {
  return readingPaths.has(client[method].path);
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
