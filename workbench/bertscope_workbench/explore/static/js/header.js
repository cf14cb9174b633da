// The header: tabs, how the server is, the model picker.

import {server as asked} from "./api.js";
import {h, replace} from "./dom.js";
import {VIEWS} from "./views/index.js";

const SAID = {
  gone: () => `no answer from ${asked.target}; trying again`,
  ended: () => "bertscope explore has ended on this machine; start it again",
  locked: () => "locked: the page needs its key",
};

/** Makes the header's parts. @param {any} state */
export function createHeader(state) {
  const tabs = /** @type {Element} */ (document.querySelector("#tabs"));
  const server = /** @type {HTMLElement} */ (document.querySelector("#server"));
  const picker = /** @type {HTMLSelectElement} */ (document.querySelector("#model"));
  let usual = "";
  picker.addEventListener("change", () => state.set({model: picker.value}));

  /** @param {string} text @param {string} kind */
  function say(text, kind) {
    if (server.textContent !== text) server.textContent = server.title = text;
    server.dataset.state = kind;
  }
  say(usual, "waiting");
  return {
    /** Shows which view is open; a tab is a link to its view with the same text and model. @param {Record<string, string>} now */
    showView(now) {
      replace(tabs, Object.entries(VIEWS).map(([view, {title}]) =>
        h("a", {href: state.link({view}).slice(window.location.origin.length + 1), "aria-current": view === now.view ? "page" : null}, title)));
    },
    /** Shows the models, and how the chosen one runs. @param {any[]} models @param {string} chosen */
    showModels(models, chosen) {
      const names = models.map(model => model.name.replace("models/", ""));
      if (chosen && !names.includes(chosen)) names.push(chosen);
      replace(picker, names.map(name => h("option", {value: name}, name)));
      picker.value = chosen || names[0] || "";
      picker.disabled = !names.length;
      const model = models[names.indexOf(picker.value)];
      usual = model?.state === "ready" ? `${asked.target}, ${model.runtime} on ${model.device}, ${model.precision}` : asked.target;
      say(usual, "fine");
    },
    /** @param {any} status */
    showStatus(status) {
      if (status.kind === "fine") say(usual, "fine");
      else if (status.kind === "overloaded") say(`${asked.target} is busy; trying again in ${status.seconds.toFixed(1)} s`, "waiting");
      else say(SAID[/** @type {keyof typeof SAID} */ (status.kind)](), "gone");
    },
  };
}
