// What stands above the view of a tab that has no key, or an old one: where the key is, and a field for it.

import {h} from "../dom.js";
import {paste} from "../key.js";

/** Makes the form. */
export function create() {
  const address = h("input", {name: "address", required: true, autocomplete: "off", spellcheck: "false", size: "60"});
  const problem = h("p", {role: "alert"});
  const form = h("form", {class: "panel locked", "aria-label": "Key", hidden: true, onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    if (paste(address.value)) window.location.reload(); // The fragment stays: the page opens where the link leads.
    else problem.textContent = "That has no key in it: it ends with #key= and the key.";
  }}, h("h2", null, "This page needs its key"),
  h("p", null, "Paste the address that ", h("code", null, "bertscope explore"), " printed in its terminal. A link holds what is looked at and no key: it opens in any tab ",
    "beside one that is open, and for everybody who runs ", h("code", null, "bertscope explore"), " on this port."),
  h("label", null, "Printed address ", address), h("button", {class: "primary"}, "Open"), problem);
  return {element: form, /** @param {boolean} locked */ show: locked => { form.hidden = !locked; }};
}
