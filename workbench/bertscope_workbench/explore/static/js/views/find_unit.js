// The left side of the Find view: which head, neuron, code or word in context is looked for.

import {base64} from "../api.js";
import {choice, h, replace} from "../dom.js";
import {means as numberMeans} from "../numbers.js";
import {create as createGrid} from "../parts/head_grid.js";
import {create as createStatus} from "../parts/status_line.js";
import {SHIPPED} from "./find_copies.js";
import {inFile, write} from "../parts/units.js";

const LIKE = {find_like: "She sat on the bank of the river.", find_word: "bank"};

/** The file of probes or codes that was opened, which outlive a look at another view. @type {{number: number, name: string, data: string, kind: string, layers: number[], names: string[], count: number} | null} */
let opened = null;

/** Makes the choice of a unit. @param {any} context @param {() => import("../parts/units.js").Unit} chosen @param {() => void} changed Called when another file is open. */
export function createUnit(context, chosen, changed) {
  const {state} = context;
  const set = (/** @type {Record<string, string | null>} */ patch, push = true) => state.set(patch, {push});
  const kind = choice("Look for", [["head", "Head"], ["neuron", "Neuron"], ["state", "Word in context"], ["probe", "Direction"]], "head", value => set({unit: write({kind: value, layer: value === "head" ? Math.min(chosen().layer, layers() - 1) : layers() >> 1, number: 0})}));
  const readout = h("p", {class: "readout soft"});
  const grid = createGrid((places, first) => { if (places.length === 1) set({unit: `head:${places[0].replace(".", ":")}`}, first); }, () => {}, text => { readout.textContent = text || hint(); });
  const heads = h("div", null, h("div", {class: "grid-scroll"}, grid.element), readout);
  const layer = h("input", {type: "number", min: "0", onchange: number});
  const neuron = h("input", {type: "number", min: "0", onchange: number});
  const steps = [["Previous", -1], ["Next", 1]].map(([label, by]) => h("button", {type: "button", onclick: () => { neuron.value = String(Math.max(0, Number(neuron.value) + Number(by))); number(); }}, label));
  const numbers = h("div", {class: "find-numbers"}, h("label", {class: "inline"}, "Layer ", layer), h("label", {class: "inline"}, "Number ", neuron), steps);
  const [like, word] = [["A sentence", "find_like"], ["and the word in it", "find_word"]].map(([label, key]) => h("input", {"aria-label": label, spellcheck: "false", autocomplete: "off", "data-key": key, onchange: (/** @type {any} */ event) => set({[key]: event.target.value.trim() || null})}));
  const likes = h("div", {class: "find-like"}, h("label", null, h("span", null, "A sentence"), like), h("label", null, h("span", null, "and the word in it"), word));
  const probeFile = h("input", {type: "file", accept: ".npz,.safetensors", "aria-label": "A file of probes or codes", onchange: () => { if (probeFile.files[0]) open(probeFile.files[0]); }});
  const status = createStatus();
  const [probeLayer, probeClass] = ["Layer", "Class"].map(label => h("select", {"aria-label": label, onchange: () => set({unit: write({kind: "probe", layer: Number(probeLayer.value), number: Number(probeClass.value)})})}));
  const probes = h("div", {class: "find-like"}, h("label", null, h("span", {class: "soft"}, "What bertscope probe --keep, or bertscope codes --save, wrote"), probeFile), h("button", {type: "button", onclick: () => open(null)}, "Codes of the embedded model"), status.element, h("div", {class: "find-numbers"}, probeLayer, probeClass));
  const outstanding = h("div", {class: "find-neurons", role: "group", "aria-label": "Units that stand out"});
  const place = h("div", {class: "find-place"});
  const element = h("section", {class: "panel", "aria-label": "Unit"}, h("header", null, h("h2", null, "Where is it largest?"), kind.element), place);

  const layers = () => context.model()?.layers ?? 1;
  const hint = () => "Click a head for the words at which it attends most to another word.";

  function number() {
    const unit = chosen();
    set({unit: write({kind: unit.kind, layer: Math.trunc(Math.max(0, Number(layer.value))), number: Math.trunc(Math.max(0, Number(neuron.value)))})});
  }

  /** @param {File | null} file null for the codes that ship. */
  async function open(file) {
    try {
      const data = file ? base64(new Uint8Array(await file.arrayBuffer())) : "";
      const found = await context.api.ask("directions", {data}, {retry: false});
      opened = {...found, number: (opened?.number ?? 0) + 1, name: file?.name ?? SHIPPED, data};
      set({unit: write({kind: found.kind, layer: found.layers[found.layers.length >> 1], number: 0})});
      changed();
    } catch (error) {
      status.error(error);
    }
  }

  return {
    element,
    /** True once a file of probes or codes is open, or those that ship. */ opened: () => opened !== null,
    /** The file in base64; "" for what ships. */ data: () => opened?.data ?? "",
    /** Its name. */ file: () => opened?.name ?? "",
    /** Its number among those that were opened, as two may have one name. */ fileNumber: () => opened?.number ?? 0,
    /** The name of a class of it; "" of other units. @param {import("../parts/units.js").Unit} unit */ name: ({kind: of, number}) => (of === "probe" && opened?.names[number]) || "",
    /** The word whose uses are looked for. */ like: () => ({like: state.get().find_like ?? LIKE.find_like, word: state.get().find_word ?? LIKE.find_word}),
    /** @param {Map<string, number> | null} means Of each head "layer.head", if they are known. @param {any[] | null} neurons Those of the layer that stand out, if they are known. */
    update(means, neurons) {
      const unit = chosen();
      const model = context.model();
      kind.set(unit.kind === "code" ? "probe" : unit.kind);
      replace(place, ...(unit.kind === "head" ? [heads] : unit.kind === "state" ? [likes, numbers] : inFile(unit) ? [probes, ...(unit.kind === "code" ? [numbers, outstanding] : [])] : [numbers, unit.kind === "neuron" && outstanding].filter(Boolean)));
      probeLayer.hidden = probeClass.hidden = opened?.kind !== "probe";
      if (opened && inFile(unit)) {
        status.note(`${opened.name}: ${opened.count} ${opened.kind === "code" ? "codes" : "classes"}`);
        replace(probeLayer, opened.layers.map(each => h("option", {value: each}, `Layer ${each}`)));
        replace(probeClass, opened.names.map((each, index) => h("option", {value: index}, each)));
        [probeLayer.value, probeClass.value] = [String(unit.layer), String(unit.number)];
      }
      layer.max = String(unit.kind === "state" ? layers() : layers() - 1);
      layer.value = String(unit.layer);
      neuron.value = String(unit.number);
      neuron.parentElement.hidden = unit.kind === "state";
      for (const step of steps) step.hidden = unit.kind === "state";
      [like.value, word.value] = [state.get().find_like ?? LIKE.find_like, state.get().find_word ?? LIKE.find_word];
      replace(outstanding, neurons?.length && [h("p", {class: "soft", ...numberMeans("above")}, `${unit.kind === "code" ? "Codes" : "Neurons"} of this layer that stand out, and the words at which they are largest:`), neurons.map(([number, above, words]) =>
        h("button", {type: "button", class: "chip", "aria-pressed": number === unit.number, title: `${above} standard deviations above its mean`, onclick: () => set({unit: write({...unit, number})})}, h("strong", null, number), ` ${[...new Set(words)].join(", ")}`))]);
      if (!model || unit.kind !== "head") return;
      const moved = means && [...Array(model.layers).keys()].map(row => [...Array(model.heads).keys()].map(column => means.get(`${row}.${column}`) ?? 0));
      grid.update({layers: model.layers, heads: model.heads, show: "moved", pictures: null, moved, worth: new Map(), changes: new Map(), at: `${unit.layer}.${unit.number}`, theme: context.theme(),
        said: value => `mean ${Number(value.toPrecision(2))}`, described: context.described()});
      if (!readout.textContent) readout.textContent = hint();
    },
  };
}
