// Buttons that copy a text: a link, a command, Python lines.

import {server} from "../api.js";
import {h} from "../dom.js";

/** Makes a button that copies what `text` gives. @param {string} label @param {() => string} text @param {(said: string) => void} announce */
export function copyButton(label, text, announce) {
  const button = h("button", {type: "button", onclick: async () => {
    await navigator.clipboard.writeText(text());
    button.textContent = "Copied";
    announce(`${label}: copied`);
    setTimeout(() => { button.textContent = label; }, 1500);
  }}, label);
  return button;
}

/** Makes the button that copies a link to what the view shows, and says whom it is for. @param {any} context */
export function linkButton({state, announce}) {
  const button = copyButton("Copy link", () => state.link(), announce);
  button.title = "What is shown, without the key: for this browser, and for who runs bertscope explore on this port";
  return button;
}

/** Quotes a text for a POSIX shell. @param {string} text */
export const shellQuoted = text => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

/** Writes a text as Python does. JSON's strings are Python's, but for characters that are no scalar values. @param {string} text */
export const pythonQuoted = text => JSON.stringify(text);

/** The lines that connect to the server. @param {string} call What is asked, an expression of `client`. */
export function pythonLines(call) {
  const others = call.includes("bertscope_workbench.") ? "import bertscope_workbench\n" : "";
  return `import bertscope\n${others}\nwith bertscope.Client(${pythonQuoted(server.target)}) as client:\n    found = ${call}\n`;
}

/** A command with the server's address. @param {string} name @param {string | null} text Its argument. @param {string[]} options */
export function command(name, text, ...options) {
  const argument = text === null ? [] : [text];
  const words = text?.startsWith("-") ? [...options, "--target", server.target, "--", text] : [...argument, ...options, "--target", server.target];
  return ["bertscope", ...name.split(" "), ...words].map(shellQuoted).join(" ");
}
