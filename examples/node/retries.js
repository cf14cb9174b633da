// Calls that are asked again, with pauses that grow, are drawn by chance and have an end.
import { setTimeout as wait } from "node:timers/promises";

import grpc from "@grpc/grpc-js";

import { ask, onlyReads } from "./connect.js";
import { retryAfter } from "./errors.js";

const FIRST_SECONDS = 0.1;
const MOST_SECONDS = 10;

/**
 * The pause before attempt 1, 2, ... in seconds: drawn from 0 to a bound that doubles up to 10 s, so that callers that failed together
 * do not come back together.
 */
export function pauseBefore(attempt, random = Math.random) {
  return random() * Math.min(MOST_SECONDS, FIRST_SECONDS * 2 ** attempt);
}

/**
 * Why waiting helps after an error: "full" (the server said when to come back; it has not begun the call), "gone" (no server was
 * reached, and the call only reads); undefined if it does not.
 */
function cause(error, client, method) {
  if (error.code === grpc.status.RESOURCE_EXHAUSTED && retryAfter(error) !== undefined) return "full";
  if (error.code === grpc.status.UNAVAILABLE && onlyReads(client, method)) return "gone";
  return undefined;
}

/**
 * As `ask`, but a call that a full server refused, or that only reads and reached none, is asked again: within `seconds` in all, at
 * most `attempts` times, never before the server's RetryInfo. gRPC's own retries, within a second or so, come on top.
 */
export async function askAgain(
  client,
  method,
  request,
  { seconds = 60, attempts = 10, signal, random = Math.random, pause = (time) => wait(time * 1000, undefined, { signal }) } = {},
) {
  const end = Date.now() + seconds * 1000;
  for (let attempt = 1; ; attempt += 1) {
    signal?.throwIfAborted();
    try {
      return await ask(client, method, request, { deadline: end });
    } catch (error) {
      if (attempt === attempts || cause(error, client, method) === undefined) throw error;
      const time = (retryAfter(error) ?? 0) + pauseBefore(attempt, random);
      if (Date.now() + time * 1000 >= end) throw error; // it says more than a deadline that has passed
      await pause(time);
    }
  }
}
