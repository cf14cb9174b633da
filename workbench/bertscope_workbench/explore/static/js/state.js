// The state of the page: a flat object of strings, all of it in the fragment of the address, which no server sees.
// "view" is the view; "model" and "text" are shared by views; each view has further keys. An empty text is one; a missing key is the usual value.

/** @typedef {Record<string, string>} State */

/**
 * Makes the state of a window. Each step that may be undone is one entry of the browser's history.
 * @param {Window} window
 * @param {string} first The view to begin with.
 */
export function createState(window, first) {
  /** @type {Set<(state: State, changed: Set<string>) => void>} */
  const listeners = new Set();
  let now = read(window.location.hash, first);
  let depth = Number(window.history.state?.depth ?? 0);

  /** @param {State} next */
  function take(next) {
    const changed = new Set([...Object.keys(now), ...Object.keys(next)].filter(key => now[key] !== next[key]));
    now = next;
    if (changed.size) for (const listener of [...listeners]) listener(now, changed);
  }
  const follow = () => {
    depth = Number(window.history.state?.depth ?? 0);
    take(read(window.location.hash, first));
  };
  window.addEventListener("popstate", follow);
  window.addEventListener("hashchange", follow);

  return {
    get: () => now,
    /** Changes some keys; null takes one out. `push` makes it a step that undo takes back.
     * @param {Record<string, string | null>} patch @param {{push?: boolean}} [how] */
    set(patch, {push = true} = {}) {
      const next = {...now};
      for (const [key, value] of Object.entries(patch)) {
        if (value === null) delete next[key];
        else next[key] = value;
      }
      next.view ||= first;
      const fragment = write(next);
      if (fragment === write(now)) return;
      depth += push ? 1 : 0;
      window.history[push ? "pushState" : "replaceState"]({depth}, "", fragment);
      take(next);
    },
    /** The address of a state: the current one, changed by `patch`. @param {State} [patch] */
    link: (patch = {}) => window.location.origin + "/" + write({...now, ...patch}),
    canUndo: () => depth > 0,
    undo: () => { if (depth > 0) window.history.back(); },
    /** Calls the listener after each change, with the state and the keys that changed. Returns a function that ends this.
     * @param {(state: State, changed: Set<string>) => void} listener */
    on(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Reads a fragment: "#view?key=value&…". Keys that nobody knows are kept. @param {string} fragment @param {string} first @returns {State} */
export function read(fragment, first) {
  const [view, ...rest] = fragment.replace(/^#/, "").split("?");
  return {...Object.fromEntries(new URLSearchParams(rest.join("?"))), view: /^[a-z]+$/.test(view) ? view : first};
}

/** @param {State} state */
export function write({view, ...values}) {
  const pairs = Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1));
  const query = new URLSearchParams(pairs).toString();
  return `#${view}${query ? "?" + query : ""}`;
}
