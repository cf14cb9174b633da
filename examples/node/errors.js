// What an error of bertscope carries besides its status and message.
import protobuf from "protobufjs";

// The fields of google/rpc/status.proto and error_details.proto that are read here. The packages that bring those files bring all of
// Google's with them, 90 MB.
const { root } = protobuf.parse(`
  syntax = "proto3";
  package google.rpc;
  message Status { repeated Detail details = 3; }
  message Detail { string type_url = 1; bytes value = 2; }
  message ErrorInfo { string reason = 1; string domain = 2; map<string, string> metadata = 3; }
  message BadRequest { repeated Violation field_violations = 1; }
  message Violation { string field = 1; string description = 2; }
  message RetryInfo { Duration retry_delay = 1; }
  message Duration { int64 seconds = 1; int32 nanos = 2; }
`);
const Status = root.lookupType("google.rpc.Status");

/** The details of an error by the last part of their types: { ErrorInfo, BadRequest, RetryInfo }, as far as it has them. */
export function details(error) {
  const [bytes] = error.metadata?.get("grpc-status-details-bin") ?? [];
  if (!bytes) return {}; // not the server's word but gRPC's own: it was not reached, or not in time
  return Object.fromEntries(
    Status.decode(bytes).details.flatMap(({ typeUrl, value }) => {
      const type = root.lookup(typeUrl.split("/").pop(), [protobuf.Type]);
      // A later server may send more kinds than these.
      return type ? [[type.name, type.toObject(type.decode(value), { longs: Number, objects: true })]] : [];
    }),
  );
}

/** Seconds to wait before the call is tried again, or undefined if that would not help. */
export function retryAfter(error) {
  const delay = details(error).RetryInfo?.retryDelay;
  return delay && (delay.seconds ?? 0) + (delay.nanos ?? 0) / 1e9;
}
