// A table that is sorted by the head of a column and filtered below it. A row may have others that stay below it.

import {h, replace} from "../dom.js";
import {means} from "../numbers.js";

/**
 * @typedef {object} Column
 * @property {string} key Its name in the sort and in the filters.
 * @property {string} title
 * @property {string} [number] What its values are, of `NUMBERS`.
 * @property {string} [meaning] A line that says so where they are none of those.
 * @property {"text" | "number" | "kind" | "own"} type A kind is one of few values; an own column is neither sorted nor filtered.
 * @property {(row: any) => any} [value] A string, a number, or null where there is none.
 * @property {(row: any) => import("../dom.js").Child} [cell] What is shown, unless it is the value.
 * @property {Node} [head] What stands in the head of an own column.
 */
/** @typedef {Record<string, string | (number | null)[]>} Filters A part of a text, one of the kinds, or [least, most] by column. */

const PAGE = 200;
const FEW = 12;

/** The type of a column with these values. @param {any[]} values @returns {"text" | "number" | "kind"} */
export function typeOf(values) {
  const found = values.filter(known);
  if (found.every(value => typeof value === "number")) return "number";
  return new Set(found).size <= Math.min(FEW, found.length / 2) ? "kind" : "text";
}

/** A value as a cell shows it. @param {any} value */
function shown(value) {
  if (!known(value)) return "";
  return typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(4))) : String(value);
}

/** The filters that a state holds. @param {string | undefined} text @returns {Filters} */
export function filtersOf(text) {
  try {
    const found = JSON.parse(text ?? "{}");
    return found && typeof found === "object" ? found : {};
  } catch {
    return {}; // A link that somebody wrote by hand.
  }
}

/** The rows that match all filters, or of which one below does. @param {any[]} rows @param {Column[]} columns @param {Filters} filters */
function filtered(rows, columns, filters) {
  const used = columns.filter(({key}) => filters[key] !== undefined);
  return rows.filter(row => [row, ...below(row)].some(each => used.every(column => matches(column, each, filters[column.key]))));
}

/** The rows in the order of a column's values, "-" before its key for the largest first; those without one come last. @param {any[]} rows @param {Column[]} columns @param {string} sort */
function sorted(rows, columns, sort) {
  const value = columns.find(({key}) => key === sort.replace(/^-/, ""))?.value;
  if (!value) return rows;
  const sign = sort.startsWith("-") ? -1 : 1;
  const compared = (/** @type {any} */ a, /** @type {any} */ b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
  const [some, none] = [true, false].map(wanted => rows.filter(row => known(value(row)) === wanted));
  return [...some.sort((a, b) => sign * compared(value(a), value(b))), ...none];
}

/**
 * Makes the table. `chose` gets the new sort, or the new filters.
 * @param {string} label
 * @param {(chosen: {sort?: string, filters?: Filters}) => void} chose
 */
export function create(label, chose) {
  const heads = h("tr");
  const fields = h("tr", {class: "filters"});
  const body = h("tbody");
  const scroll = h("div", {class: "table-scroll data-table", tabindex: "0", role: "region", "aria-label": label}, h("table", null, h("thead", null, heads, fields), body));
  const more = h("button", {type: "button", hidden: true, onclick: () => { most += PAGE; draw(); }});
  const count = h("p", {class: "soft", role: "status"});
  const sideways = h("p", {class: "soft", hidden: true}, "The table is wider than the page: scroll it sideways.");
  const element = h("div", null, count, sideways, scroll, more);
  const watch = new ResizeObserver(() => { sideways.hidden = scroll.scrollWidth <= scroll.clientWidth; });
  for (const each of [scroll, ...scroll.children]) watch.observe(each);
  /** @type {WeakMap<any, {element: HTMLElement, of: string}>} The elements of rows, and what they were made of. */
  let drawn = new WeakMap();
  /** @type {{rows: any[], columns: Column[], sort: string, filters: Filters, stamp?: (row: any) => string}} */
  let data = {rows: [], columns: [], sort: "", filters: {}};
  let most = PAGE;
  let made = "";

  function draw() {
    const columns = data.columns;
    const layout = JSON.stringify(columns.map(({key, title, type}) => [key, title, type, type === "kind" && kinds(key)]));
    if (layout !== made) {
      drawn = new WeakMap();
      replace(heads, columns.map(headOf));
      replace(fields, columns.map(fieldOf));
    }
    made = layout;
    columns.forEach(({key, type}, index) => { if (type !== "own") heads.children[index].setAttribute("aria-sort", data.sort === key ? "ascending" : data.sort === `-${key}` ? "descending" : "none"); });
    fill();
    const kept = order();
    const elements = kept.slice(0, most).flatMap(row => [row, ...below(row)]).map(elementOf);
    const focused = /** @type {HTMLElement | null} */ (document.activeElement);
    if (elements.length !== body.children.length || elements.some((each, index) => each !== body.children[index])) {
      replace(body, elements);
      if (focused && focused !== document.activeElement && body.contains(focused)) focused.focus({preventScroll: true});
    }
    const all = data.rows.length;
    const under = kept.reduce((sum, row) => sum + below(row).length, 0);
    const said = (kept.length < all ? `${kept.length} of ${all} rows` : `${all} ${all === 1 ? "row" : "rows"}`) + (under ? `, ${under} below them` : "");
    if (count.textContent !== said) count.textContent = said;
    more.hidden = kept.length <= most;
    more.textContent = `Show ${Math.min(PAGE, kept.length - most)} more`;
  }

  const order = () => sorted(filtered(data.rows, data.columns, data.filters), data.columns, data.sort);

  /** @param {any} row */
  function elementOf(row) {
    const of = data.stamp?.(row) ?? "";
    const old = drawn.get(row);
    if (old?.of === of) return old.element;
    const element = old?.element ?? h("tr");
    element.className = row.of ? "below" : "";
    replace(element, data.columns.map(({value, cell, type}) => h("td", {class: type === "number" && "number"}, cell ? cell(row) : shown(value?.(row)))));
    drawn.set(row, {element, of});
    return element;
  }

  /** @param {Column} column */
  function headOf({key, title, number, meaning, type, head}) {
    if (type === "own") return h("th", {scope: "col"}, head ?? h("span", {class: "visually-hidden"}, title));
    return h("th", {scope: "col", class: type === "number" && "number"},
      h("button", {type: "button", class: "sort", ...(number ? means(number) : {title: meaning, "data-number": meaning && `column ${key}`}), onclick: () => chose({sort: data.sort === key ? `-${key}` : data.sort === `-${key}` ? "" : key})}, title));
  }

  /** The fields in which a column is filtered. @param {Column} column */
  function fieldOf({key, title, type}) {
    if (type === "own") return h("td");
    if (type === "kind") return h("td", null, h("select", {"aria-label": `${title} is`, "data-key": key, onchange: taken}, h("option", {value: ""}, "all"), kinds(key).map(kind => h("option", {value: kind}, kind))));
    if (type === "text") return h("td", null, h("input", {type: "search", "aria-label": `${title} contains`, placeholder: "contains", "data-key": key, oninput: taken}));
    return h("td", {class: "number"}, h("span", {class: "range"}, ["from", "to"].map((word, index) => h("input", {type: "number", step: "any", "aria-label": `${title} ${word}`, placeholder: word, "data-key": key, "data-end": index, oninput: taken}))));
  }

  /** @param {string} key */
  function kinds(key) {
    const value = data.columns.find(column => column.key === key)?.value;
    return value ? [...new Set(data.rows.flatMap(row => [row, ...below(row)]).map(value).filter(known).map(String))].sort((a, b) => a.localeCompare(b)) : [];
  }

  const inputs = () => /** @type {HTMLInputElement[]} */ ([...fields.querySelectorAll("[data-key]")]);

  function taken() {
    /** @type {Filters} */
    const filters = {};
    for (const {dataset: {key = "", end}, value} of inputs()) {
      if (end === undefined) { if (value) filters[key] = value; } else {
        const range = /** @type {(number | null)[]} */ (filters[key] ?? [null, null]);
        range[Number(end)] = value === "" ? null : Number(value);
        if (range.some(known)) filters[key] = range;
      }
    }
    most = PAGE;
    chose({filters});
  }

  /** Writes the filters into their fields, but into one that is being typed in. */
  function fill() {
    for (const input of inputs()) {
      if (input === document.activeElement) continue;
      const value = data.filters[input.dataset.key ?? ""];
      const now = input.dataset.end === undefined ? value : value?.[Number(input.dataset.end)];
      input.value = known(now) ? String(now) : "";
    }
  }

  return {
    element,
    /** Shows rows. `stamp` says what a row's cells depend on: a row with another stamp is drawn again. @param {typeof data} next */
    update(next) {
      data = next;
      draw();
    },
    /** The rows that are not filtered out, in order, with those below them. */
    kept: () => order().flatMap(row => [row, ...below(row)]),
  };
}

/** @param {Column} column @param {any} row @param {Filters[string]} filter */
function matches({value: of, type}, row, filter) {
  const value = of?.(row);
  if (!known(value)) return false;
  if (type === "number") return Array.isArray(filter) && value >= (filter[0] ?? -Infinity) && value <= (filter[1] ?? Infinity);
  const text = String(value);
  return type === "kind" ? text === filter : text.toLowerCase().includes(String(filter).toLowerCase());
}

/** @param {any} row @returns {any[]} */
const below = row => row.copies ?? [];

/** @param {any} value */
const known = value => value !== null && value !== undefined && value !== "";
