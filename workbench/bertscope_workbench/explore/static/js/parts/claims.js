// Claims of bertscope primer: a verdict for each claim and model by section; a claim opens to its tests and their numbers.

import {h} from "../dom.js";

const SIGNS = new Map([["holds", "✓"], ["does not hold", "✗"], ["can't be told", "?"], ["holds in part", "◐"],
  ["reproduced", "✓"], ["differs", "✗"], ["nothing to compare", "·"], ["not asked", "–"]]);

/** @param {{models: string[], claims: any[]}} found */
export function claimsOf({models, claims}) {
  const sections = [...new Set(claims.map(claim => claim.section))];
  const counts = models.map((name, index) => h("p", null, h("strong", null, name), ": ", [...SIGNS.keys()]
    .map(verdict => [verdict, claims.filter(claim => claim.verdicts[index] === verdict).length])
    .filter(([, count]) => count).map(([verdict, count]) => `${count} ${verdict}`).join(", ")));
  return [counts, sections.map(section => {
    const own = claims.filter(claim => claim.section === section);
    return h("section", {class: "claims", "aria-label": `${section} ${own[0].section_title}`}, h("h3", null, `${section} ${own[0].section_title}`), own.map(claim => claimOf(claim, models)));
  })];
}

/** @param {any} claim @param {string[]} models */
function claimOf(claim, models) {
  return h("details", null,
    h("summary", null, h("span", null, claim.title), h("span", {class: "claim-verdicts"}, claim.verdicts.map(badge))),
    h("p", null, claim.claim), h("p", {class: "soft"}, claim.explained, " ", claim.paper, "."),
    claim.reproduction.length > 0 && figuresOf(claim),
    claim.tests.length > 0 && h("div", {class: "table-scroll", tabindex: "0", role: "region", "aria-label": `Tests of ${claim.title}`}, h("table", null,
      h("thead", null, h("tr", null, ["test", models.length > 1 && "model", "number", "control", "difference, 95 %", "holds", "verdict"].filter(Boolean)
        .map(name => h("th", {scope: "col", class: ["number", "control", "difference, 95 %", "holds"].includes(String(name)) && "number"}, String(name))))),
      h("tbody", null, claim.tests.map((/** @type {any} */ test) => test.results.map((/** @type {any} */ result, /** @type {number} */ index) => h("tr", null,
        h("td", null, test.measured, h("br"), h("span", {class: "soft"}, result.value === null ? result.why : `control: ${test.control}; ${result.items} items: ${result.data}`)),
        models.length > 1 && h("td", null, models[index]),
        h("td", {class: "number"}, number(result.value, test.unit)), h("td", {class: "number"}, number(result.control, test.unit)),
        h("td", {class: "number"}, result.value !== null && interval(result, test.unit)),
        h("td", {class: "number"}, `${test.holds} ${number(test.threshold, test.unit)}`), h("td", null, badge(result.verdict)))))))));
}

/** The figures of a reproduction beside published ones, of each model. @param {any} claim */
function figuresOf({title, reproduction}) {
  const rows = reproduction.flatMap((/** @type {any} */ found) => found.figures.map((/** @type {any} */ figure) => {
    const beside = found.published.find((/** @type {any} */ each) => each.metric === figure.metric && each.group === figure.group && ["reproduced", "differs"].includes(each.verdict));
    return h("tr", null, h("td", null, found.model), h("td", null, figure.group || "all"), h("td", null, figure.metric),
      h("td", {class: "number"}, String(figure.items)), h("td", {class: "number"}, number(figure.value, "share")),
      h("td", {class: "number"}, beside ? number(beside.value, "share") : ""), h("td", null, beside ? badge(beside.verdict) : ""));
  }));
  return h("div", {class: "table-scroll", tabindex: "0", role: "region", "aria-label": `Figures of ${title}`}, h("table", null,
    h("thead", null, h("tr", null, ["model", "group", "figure", "items", "here", "published", "verdict"]
      .map(name => h("th", {scope: "col", class: ["items", "here", "published"].includes(name) && "number"}, name)))), h("tbody", null, rows)));
}

/** @param {string} verdict */
function badge(verdict) {
  return h("span", {class: "verdict", "data-verdict": verdict}, h("span", {"aria-hidden": true}, SIGNS.get(verdict) ?? ""), ` ${verdict}`);
}

/** @param {number | null} value @param {string} unit */
function number(value, unit) {
  if (typeof value !== "number") return "";
  return unit === "share" ? `${(100 * value).toFixed(1)} %` : value === 0 ? "0" : String(Number(value.toPrecision(3)));
}

/** @param {any} result @param {string} unit */
function interval({difference, low, high, control}, unit) {
  const scale = unit === "share" ? 100 : 1;
  const said = (/** @type {number | null} */ value) => (typeof value === "number" ? `${value < 0 ? "−" : "+"}${Math.abs(scale * value).toFixed(scale === 1 ? 3 : 1)}` : "–");
  return `${said(difference)} [${said(low)}, ${said(high)}]${scale === 1 ? "" : control === null ? " %" : " points"}`;
}
