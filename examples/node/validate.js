// Checks a request before it is sent, by the rules that the contract declares for its fields.
import { readFileSync } from "node:fs";

import { createFileRegistry, fromBinary, fromJson } from "@bufbuild/protobuf";
import { pathToString } from "@bufbuild/protobuf/reflect";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { createValidator } from "@bufbuild/protovalidate";

const contract = createFileRegistry(
  fromBinary(FileDescriptorSetSchema, readFileSync(new URL("bertscope.binpb", import.meta.url))),
);
const validator = createValidator({ registry: contract });

/**
 * The rules that a request breaks, as [{ field, problem }]; none if the server takes its fields as they are. The fields are named
 * as in the server's errors: `violations("FillMaskRequest", { texts: [""] })` finds "texts[0]". What only the model or the
 * server's settings decide is not among them.
 */
export function violations(type, request) {
  const schema = contract.getMessage(`bertscope.v1.${type}`);
  const result = validator.validate(schema, fromJson(schema, request));
  if (result.kind === "error") throw result.error; // the rules themselves can't be read
  return (result.violations ?? []).map(({ field, message }) => ({ field: pathToString(field), problem: message }));
}
