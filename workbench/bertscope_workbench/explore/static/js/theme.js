// Light or dark: as the system says, until the button is pressed.

const KEY = "bertscope-theme";

/** Makes the theme of the page. `changed` is called after each change. @param {HTMLButtonElement} button @param {() => void} changed */
export function createTheme(button, changed) {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const get = () => /** @type {"light" | "dark"} */ (document.documentElement.dataset.theme);
  function show() {
    const dark = (stored() ?? (system.matches ? "dark" : "light")) === "dark";
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    button.textContent = dark ? "☀" : "☾";
    button.setAttribute("aria-label", dark ? "Light colours" : "Dark colours");
    button.title = dark ? "Light colours" : "Dark colours";
  }
  button.addEventListener("click", () => {
    store(get() === "dark" ? "light" : "dark");
    show();
    changed();
  });
  system.addEventListener("change", () => { show(); changed(); });
  show();
  return {get};
}

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // A browser may forbid storage.
  }
}

/** @param {string} theme */
function store(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    document.documentElement.dataset.theme = theme;
  }
}
