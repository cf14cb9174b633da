// Saves what a view shows: a drawing as SVG or PNG, the whole view as one HTML file that opens without a server.

import {createApi} from "../api.js";
import {h} from "../dom.js";

const PAINT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "opacity",
  "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline", "text-decoration", "image-rendering"];
const PNG_SCALE = 2;
const MARGIN = 12;
const CAPTION_PIXELS = 22;

/** @typedef {{name: string, caption: string, commands?: string[]}} Labels The file's name without its end, a line that says what it
 * shows, and the commands that compute it, whose papers the page ends with. */

/**
 * Makes the buttons that save pictures of a view.
 * @param {() => {drawings: {label: string, svg: () => SVGSVGElement | null, labels?: Labels}[], view: Element, labels: Labels}} get
 * @param {(error: unknown) => void} failed
 */
export function create(get, failed) {
  const menu = h("div", {class: "menu-items"});
  const element = h("details", {class: "menu"}, h("summary", null, "Save picture"), menu);
  /** Closes the menu when something else is pressed, or focus goes elsewhere. @param {Event} event */
  const leave = event => { if (!element.contains(/** @type {any} */ (event.target))) element.open = false; };
  element.addEventListener("toggle", () => {
    for (const kind of ["pointerdown", "focusin"]) document[element.open ? "addEventListener" : "removeEventListener"](kind, leave);
    if (!element.open) return;
    const {drawings, view, labels} = get();
    menu.replaceChildren(...drawings.flatMap(({label, svg, labels: own = labels}) => [
      item(`${label}, SVG`, () => saveSvg(need(svg()), own)), item(`${label}, PNG`, () => savePng(need(svg()), own))]),
    item("Whole view, HTML", () => saveHtml(view, labels)));
  });
  element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape" || !element.open) return;
    element.open = false;
    element.querySelector("summary").focus();
    event.stopPropagation();
  });
  /** @param {string} text @param {() => unknown} act */
  const item = (text, act) => h("button", {type: "button", onclick: async () => {
    try {
      await act();
    } catch (error) {
      failed(error);
    }
    element.open = false;
  }}, text);
  return {element};
}

/** @param {SVGSVGElement} drawing @param {Labels} labels */
export function saveSvg(drawing, labels) {
  save(new Blob([text(drawing, labels.caption)], {type: "image/svg+xml"}), `${labels.name}.svg`);
}

/** @param {SVGSVGElement} drawing @param {Labels} labels */
export async function savePng(drawing, labels) {
  const image = new Image();
  const source = URL.createObjectURL(new Blob([text(drawing, labels.caption)], {type: "image/svg+xml"}));
  try {
    image.src = source;
    await image.decode();
    const canvas = h("canvas", {width: image.width * PNG_SCALE, height: image.height * PNG_SCALE});
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise(resolve => canvas.toBlob(resolve, "image/png"));
    save(blob, `${labels.name}.png`);
  } finally {
    URL.revokeObjectURL(source);
  }
}

/** Saves the view as it stands, without what only works with a server. @param {Element} view @param {Labels} labels */
export async function saveHtml(view, labels) {
  const copy = /** @type {Element} */ (view.cloneNode(true));
  const canvases = view.querySelectorAll("canvas");
  copy.querySelectorAll("canvas").forEach((each, index) => {
    const image = h("img", {src: canvases[index].toDataURL(), alt: each.getAttribute("aria-label") ?? "", class: each.className});
    image.style.cssText = /** @type {HTMLElement} */ (each).style.cssText;
    each.replaceWith(image);
  });
  const fields = view.querySelectorAll("textarea, input, select");
  copy.querySelectorAll("textarea, input, select").forEach((each, index) => {
    const field = /** @type {HTMLInputElement} */ (fields[index]);
    each.replaceWith(field.tagName === "TEXTAREA" ? h("p", {class: "saved-text"}, field.value) : "");
  });
  copy.querySelectorAll("details.menu, .page-footer button, .words-line, .word-readout, script").forEach(each => each.remove());
  copy.querySelectorAll("button").forEach(each => each.setAttribute("disabled", ""));
  const rules = [...document.styleSheets].flatMap(sheet => [...sheet.cssRules].map(rule => rule.cssText)).join("\n");
  const page = document.implementation.createHTMLDocument(labels.caption);
  page.documentElement.lang = "en";
  page.documentElement.dataset.theme = document.documentElement.dataset.theme ?? "light";
  const policy = page.createElement("meta");
  policy.httpEquiv = "Content-Security-Policy";
  policy.content = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";
  const charset = page.createElement("meta");
  charset.setAttribute("charset", "utf-8");
  page.head.prepend(charset, policy);
  const main = page.createElement("main");
  const caption = page.createElement("h1");
  caption.textContent = labels.caption;
  main.append(caption, page.importNode(copy, true));
  if (labels.commands?.length) main.append(...(await method(labels.commands)).map(part => page.importNode(part, true)));
  page.body.append(main);
  // As text: this page's own policy forbids elements of style.
  const whole = page.documentElement.outerHTML.replace("</head>", () => `<style>${rules}</style></head>`);
  save(new Blob(["<!doctype html>\n" + whole], {type: "text/html"}), `${labels.name}.html`);
}

/** What commands compute, and its papers. @param {string[]} commands */
async function method(commands) {
  const {numbers, bibtex} = await createApi().ask("methods", {commands}, {retry: false});
  return [h("h2", null, "Method"), ...numbers.map((/** @type {string} */ number) => h("p", null, number)), h("pre", null, bibtex)];
}

/** Saves a text as a file. @param {string} content @param {string} name */
export const saveText = (content, name) => save(new Blob([content], {type: "text/plain"}), name);

/** A drawing as a file of its own: colours and fonts in it, a caption above it. @param {SVGSVGElement} drawing @param {string} caption */
function text(drawing, caption) {
  const copy = /** @type {SVGSVGElement} */ (drawing.cloneNode(true));
  paint(drawing, copy);
  const shown = drawing.isConnected;
  const colours = getComputedStyle(document.documentElement);
  const box = drawing.viewBox.baseVal;
  const [width, height] = box?.width ? [box.width, box.height] : [drawing.clientWidth, drawing.clientHeight];
  const names = "http://www.w3.org/2000/svg";
  const outer = document.createElementNS(names, "svg");
  const [wide, high] = [width + 2 * MARGIN, height + 2 * MARGIN + CAPTION_PIXELS];
  for (const [name, value] of Object.entries({xmlns: names, width: wide, height: high, viewBox: `0 0 ${wide} ${high}`})) outer.setAttribute(name, String(value));
  const ground = document.createElementNS(names, "rect");
  for (const [name, value] of Object.entries({width: wide, height: high, fill: colours.getPropertyValue("--surface")})) ground.setAttribute(name, String(value));
  const line = document.createElementNS(names, "text");
  for (const [name, value] of Object.entries({x: MARGIN, y: MARGIN + 12, fill: colours.getPropertyValue("--text"), "font-size": 13, "font-family": "sans-serif"})) {
    line.setAttribute(name, String(value));
  }
  line.textContent = caption;
  for (const [name, value] of Object.entries({x: MARGIN, y: MARGIN + CAPTION_PIXELS, width, height})) copy.setAttribute(name, String(value));
  if (!shown) copy.removeAttribute("class");
  outer.append(ground, line, copy);
  return new XMLSerializer().serializeToString(outer);
}

/** Writes the computed colours and fonts of each element into its copy. @param {Element} from @param {Element} to */
function paint(from, to) {
  if (from.isConnected) {
    const style = getComputedStyle(from);
    for (const name of PAINT) {
      const value = style.getPropertyValue(name);
      if (value && value !== "normal" && value !== "auto") to.setAttribute(name, value);
    }
  }
  to.removeAttribute("class");
  to.removeAttribute("tabindex");
  [...from.children].forEach((child, index) => paint(child, to.children[index]));
}

/** @template T @param {T | null} drawing @returns {T} */
function need(drawing) {
  if (!drawing) throw new Error("nothing is drawn yet");
  return drawing;
}

/** @param {Blob} blob @param {string} name */
function save(blob, name) {
  const address = URL.createObjectURL(blob);
  h("a", {href: address, download: name.replace(/[^\w.-]+/g, "-")}).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
