// Makes elements. Text becomes text nodes only: nothing that a user or a model wrote is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false | Child[]} Child */

/**
 * Makes an HTML element. Attributes that begin with "on" are listeners ({onclick: f}); "class", "aria-…" and "data-…" are
 * attributes; true sets an empty attribute, false, null and undefined none; in "aria-…" true and false are words. `style` takes an object of properties.
 * @param {string} tag
 * @param {Record<string, any> | null} [attributes]
 * @param {...Child} children
 * @returns {any}
 */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Makes an SVG element, as `h` does. @param {string} tag @param {Record<string, any> | null} [attributes] @param {...Child} children */
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Puts these children in the place of all that the parent has. @param {Element} parent @param {...Child} children */
export function replace(parent, ...children) {
  parent.replaceChildren(...nodes(children));
  return parent;
}

/** Makes one choice of several: radio buttons drawn as a bar. `options` are [value, label] pairs.
 * @param {string} legend @param {[string, Child][]} options @param {string} value @param {(value: string) => void} chosen */
export function choice(legend, options, value, chosen) {
  const name = `choice-${++choices}`;
  const inputs = options.map(([each]) =>
    h("input", {type: "radio", name, value: each, checked: each === value, onchange: () => chosen(each)}));
  const element = h("fieldset", {class: "choice"}, h("legend", {class: "visually-hidden"}, legend),
    options.map(([, label], index) => h("label", null, inputs[index], label)));
  return {element, /** @param {string} now */ set: now => inputs.forEach(input => { input.checked = input.value === now; })};
}
let choices = 0;

/** @param {any} element @param {Record<string, any> | null | undefined} attributes @param {Child[]} children */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [property, each] of Object.entries(value)) element.style.setProperty(property, String(each));
    else if (name.startsWith("aria-") && typeof value === "boolean") element.setAttribute(name, String(value));
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...nodes(children));
  return element;
}

/** @param {Child[]} children @returns {(Node | string)[]} */
function nodes(children) {
  return /** @type {any[]} */ (children).flat(Infinity)
    .filter(child => child !== null && child !== undefined && child !== false)
    .map(child => (child instanceof Node ? child : String(child)));
}
