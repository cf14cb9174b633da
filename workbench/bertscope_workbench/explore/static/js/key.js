// The key to the page's server. It comes in the fragment of the printed address, stays in this tab's storage, and goes with each
// question as a header. Never a cookie: a browser gives those of 127.0.0.1 to every port of it, and so to other servers.

const STORED = "bertscope-key";
const CHANNEL = "bertscope-key";
const TAB_MILLISECONDS = 300;

/** @type {string} */ let key = "";
let works = false;

/** What a question's header holds. */
export const authorization = () => `Bearer ${key}`;

/** Notes whether the key opened the page: one that does not is given to no other tab. @param {boolean} opened */
export function noteWorks(opened) { works = opened; }

/** Finds the key: in the address, which then loses it, in this tab's storage, or in another tab of this page.
 * A tab that finds none asks with none, and is told where the key is. */
export async function findKey() {
  take() || recall();
  // The printed address in a tab that shows the page already changes the fragment alone.
  window.addEventListener("hashchange", event => { if (take()) { event.stopImmediatePropagation(); window.location.reload(); } });
  const channel = new BroadcastChannel(CHANNEL); // Heard by pages of this very origin: host and port.
  const given = key ? null : asked(channel);
  channel.addEventListener("message", ({data}) => { if (data === "key?" && works) channel.postMessage({key}); });
  if (given) use(await given);
}

/** Takes a key that somebody pasted: the printed address, or what follows "key=" in it. False if there is none in the text. @param {string} text */
export function paste(text) {
  const found = /(?:^|key=)([\w-]+)\s*$/.exec(text.trim());
  if (found) use(found[1]);
  return Boolean(found);
}

function take() {
  const found = /^#key=([\w-]+)(.*)$/.exec(window.location.hash);
  if (!found) return false;
  window.history.replaceState(window.history.state, "", window.location.pathname + found[2]);
  use(found[1]);
  return true;
}

/** @param {string} found */
function use(found) {
  if (!found) return;
  key = found;
  try {
    sessionStorage.setItem(STORED, key);
  } catch {
    // A browser may forbid storage: then a reload needs the printed address.
  }
}

function recall() {
  try {
    key = sessionStorage.getItem(STORED) ?? "";
  } catch {
    key = "";
  }
}

/** @param {BroadcastChannel} channel @returns {Promise<string>} "" if no tab answers. */
function asked(channel) {
  return new Promise(resolve => {
    channel.addEventListener("message", ({data}) => { if (data?.key) resolve(data.key); });
    setTimeout(() => resolve(""), TAB_MILLISECONDS);
    channel.postMessage("key?");
  });
}
