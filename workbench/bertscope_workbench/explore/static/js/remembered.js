// What the page remembers from visit to visit, in this browser alone: the theme, and how far the tour went.

const PREFIX = "bertscope-";

/** What is remembered under a name; null for nothing, or where the browser forbids storage. @param {string} name */
export function recall(name) {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

/** Remembers a text under a name; false where the browser forbids storage. @param {string} name @param {string} text */
export function remember(name, text) {
  try {
    localStorage.setItem(PREFIX + name, text);
    return true;
  } catch {
    return false;
  }
}
