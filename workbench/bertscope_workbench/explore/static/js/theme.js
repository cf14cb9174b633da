// Light or dark: as the system says, until the button is pressed.

import {recall, remember} from "./remembered.js";

const NAME = "theme";

/** Makes the theme of the page. `changed` is called after each change. @param {HTMLButtonElement} button @param {() => void} changed */
export function createTheme(button, changed) {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const get = () => /** @type {"light" | "dark"} */ (document.documentElement.dataset.theme);
  function show() {
    const dark = (recall(NAME) ?? (system.matches ? "dark" : "light")) === "dark";
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    button.textContent = dark ? "☀" : "☾";
    button.setAttribute("aria-label", dark ? "Light colours" : "Dark colours");
    button.title = dark ? "Light colours" : "Dark colours";
  }
  button.addEventListener("click", () => {
    const next = get() === "dark" ? "light" : "dark";
    if (remember(NAME, next)) show();
    else document.documentElement.dataset.theme = next;
    changed();
  });
  system.addEventListener("change", () => { show(); changed(); });
  show();
  return {get};
}
