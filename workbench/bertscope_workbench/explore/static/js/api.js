// Asks the page's server. A question is one POST; its answer comes as events, one JSON object a line.

import {said} from "./fields.js";
import {authorization, noteWorks} from "./key.js";

/** Errors that whoever asks can mend: nobody needs to look into a log. */
const OWN = ["INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION", "UNIMPLEMENTED", "PERMISSION_DENIED"];
const GONE_SECONDS = 1;
const MOST_WAITS = 30;

/** An error of a question. */
export class AskError extends Error {
  /** @param {{status: string, reason?: string, message: string, request_id?: string | null, retry_after?: number | null}} error */
  constructor(error) {
    super(said(error.message));
    this.status = error.status;
    this.reason = error.reason ?? "";
    this.requestId = error.request_id ?? null;
    this.retryAfter = error.retry_after ?? null;
  }

  /** The error in one line; if only a log explains it, with the id under which the server logged the call. */
  line() {
    return this.requestId && !OWN.includes(this.status) ? `${this.message} (request ${this.requestId})` : this.message;
  }
}

/** @param {unknown} error True for what a newer question, or Stop, ended. */
export const aborted = error => error instanceof DOMException && error.name === "AbortError";

/** @typedef {{kind: "fine"} | {kind: "overloaded", seconds: number} | {kind: "gone"} | {kind: "ended"} | {kind: "locked"}} Status */

/** The bertscope server that the page asks, by its address; "" until the page was let in. */
export const server = {target: ""};

export function createApi() {
  /** @type {Set<(status: Status) => void>} */
  const listeners = new Set();
  /** @param {Status} status */
  const tell = status => { for (const listener of listeners) listener(status); };

  /**
   * Asks a question and returns its last event. Waits and asks again while the server is overloaded or gone, unless `retry` is
   * false, and tells the status listeners so.
   * @param {string} name
   * @param {object} body
   * @param {{signal?: AbortSignal, onEvent?: (event: any) => void, retry?: boolean}} [how]
   * @returns {Promise<any>}
   */
  async function ask(name, body, {signal, onEvent, retry = true} = {}) {
    for (let waits = 0; ; waits++) {
      try {
        const last = await once(name, body, signal, onEvent);
        tell({kind: "fine"});
        return last;
      } catch (error) {
        if (aborted(error)) throw error;
        const seconds = error instanceof AskError ? told(error) : ended(error);
        if (seconds === null || !retry || waits >= MOST_WAITS) throw error;
        await pause(seconds * 1000, signal);
      }
    }
  }

  /** Tells the listeners of an error; returns the seconds to wait, null if waiting does not help. @param {AskError} error */
  function told(error) {
    if (error.retryAfter !== null) {
      tell({kind: "overloaded", seconds: error.retryAfter});
      return error.retryAfter;
    }
    if (error.status === "UNAVAILABLE") {
      tell({kind: "gone"});
      return GONE_SECONDS;
    }
    tell({kind: error.status === "PAGE_REFUSED" ? "locked" : "fine"});
    return null;
  }

  /** @param {unknown} error */
  function ended(error) {
    if (!(error instanceof TypeError)) throw error;
    tell({kind: "ended"}); // fetch says TypeError when nobody listens: `bertscope explore` itself has ended.
    return GONE_SECONDS;
  }

  return {
    ask,
    /** Returns an asker of which the latest question alone is answered: a newer one ends the one in flight. */
    latest() {
      let running = new AbortController();
      return {
        /** @param {string} name @param {object} body @param {{onEvent?: (event: any) => void, retry?: boolean}} [how] */
        ask(name, body, how = {}) {
          running.abort();
          running = new AbortController();
          return ask(name, body, {...how, signal: running.signal});
        },
        stop: () => running.abort(),
      };
    },
    /** Calls the listener with each status of the server. @param {(status: Status) => void} listener */
    onStatus(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The bytes of a file as a question holds them. @param {Uint8Array} bytes */
export function base64(bytes) {
  let text = "";
  for (let start = 0; start < bytes.length; start += 32_768) text += String.fromCharCode(...bytes.subarray(start, start + 32_768));
  return btoa(text);
}

/** @param {string} name @param {object} body @param {AbortSignal} [signal] @param {(event: any) => void} [onEvent] */
async function once(name, body, signal, onEvent) {
  const reply = await fetch(`/api/${name}`, {
    method: "POST", headers: {"content-type": "application/json", authorization: authorization()}, body: JSON.stringify(body), signal, credentials: "omit",
  });
  noteWorks(reply.status !== 401);
  if (!reply.ok || !reply.body) throw await refused(reply);
  let last = null;
  for await (const line of lines(reply.body)) {
    const event = JSON.parse(line);
    if (event.error) throw new AskError(event.error);
    signal?.throwIfAborted();
    last = event;
    onEvent?.(event);
  }
  return last;
}

/** @param {Response} reply */
async function refused(reply) {
  try {
    return new AskError((await reply.json()).error);
  } catch {
    return new AskError({status: "INTERNAL", message: `the page's server answered ${reply.status}`});
  }
}

/** @param {ReadableStream<Uint8Array>} stream */
async function* lines(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let ended = false;
  try {
    for (;;) {
      const {value, done} = await reader.read();
      ended = done;
      if (done) break;
      const parts = (rest + value).split("\n");
      rest = parts.pop() ?? "";
      yield* parts;
    }
    if (rest) yield rest;
  } finally {
    if (!ended) await reader.cancel().catch(() => {});
  }
}

/** @param {number} milliseconds @param {AbortSignal} [signal] @returns {Promise<void>} */
function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => { clearTimeout(timer); reject(signal?.reason); };
    const timer = setTimeout(() => { signal?.removeEventListener("abort", stop); resolve(); }, milliseconds);
    signal?.addEventListener("abort", stop, {once: true});
  });
}
