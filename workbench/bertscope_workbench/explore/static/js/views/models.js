// The Models view: what is loaded; load, compress and unload, for those whose role may.

import {h, replace} from "../dom.js";
import {count} from "../format.js";
import {means} from "../numbers.js";
import {create as createStatus} from "../parts/status_line.js";

/** Steps of the form: their names, labels, and the field of what they need. */
const STEPS = {
  int8: ["8-bit integers"],
  onnx: ["ONNX"],
  fp16: ["float16"],
  bf16: ["bfloat16"],
  weight_only: ["Weights of few bits", {name: "bits", label: "Bits", value: "4", read: Number}],
  layers: ["Fewer layers", {name: "layers", label: "Layers to keep, from 0", value: "0, 2, 4", read: wholes}],
  ffn: ["Fewer feed-forward neurons", {name: "share", label: "Share to remove", value: "0.25", read: Number}],
  magnitude: ["Zero the smallest weights", {name: "share", label: "Share to zero", value: "0.5", read: Number}],
};

/** @param {Element} container @param {any} context */
export function mount(container, context) {
  const status = createStatus();
  const table = h("div", {class: "table-scroll", tabindex: "0", role: "region", "aria-label": "Loaded models"});
  const bar = h("progress", {hidden: true, "aria-label": "Progress"});
  const stop = h("button", {type: "button", hidden: true}, "Stop");
  const forms = h("div", {class: "models-forms"}, loadForm(), compressForm());
  replace(container,
    h("section", {class: "panel"}, h("header", null, h("h2", null, "Models"), stop), table, bar, status.element), forms);
  const work = context.api.latest();
  stop.addEventListener("click", () => work.stop());

  /** Asks something that takes time, shows its progress, and what came of it. @param {string} question @param {object} body @param {string} doing */
  async function run(question, body, doing) {
    status.waiting(doing);
    bar.hidden = stop.hidden = false;
    bar.removeAttribute("value");
    try {
      const last = await work.ask(question, body, {retry: false, onEvent: event => progress(event.progress, doing)});
      const name = last.model?.name.replace("models/", "") ?? last.unloaded;
      status.note(last.model ? `${name} is ready.` : `${name} is unloaded.`);
      context.announce(last.model ? `${name} is ready` : `${name} is unloaded`);
    } catch (error) {
      if (error instanceof DOMException) status.note("Stopped.");
      else status.error(error);
    } finally {
      bar.hidden = stop.hidden = true;
      await context.refreshModels().catch(() => {});
    }
  }

  /** @param {any} now @param {string} doing */
  function progress(now, doing) {
    if (!now) return;
    const [done, total] = now.total_steps ? [now.done_steps, now.total_steps] : [now.done_bytes, now.total_bytes];
    if (total) { bar.max = total; bar.value = done; } else bar.removeAttribute("value");
    status.waiting([doing, now.stage?.replaceAll("_", " "), now.detail].filter(Boolean).join(": "));
  }

  function loadForm() {
    const source = h("input", {name: "source", required: true, autocomplete: "off", spellcheck: "false"});
    const name = h("input", {name: "model_id", autocomplete: "off", spellcheck: "false"});
    const again = h("input", {type: "checkbox", name: "replace"});
    return h("form", {class: "panel", onsubmit: submitted(() =>
      run("load", {source: source.value, model_id: name.value, replace: again.checked}, `loading ${source.value}`))},
      h("h2", null, "Load a model"), h("label", null, "Hub id, or a folder or .onnx file on the server", source),
      h("label", null, "Name, if not the last part of that", name),
      h("label", {class: "inline"}, again, "in the place of a model of that name"),
      h("button", {class: "primary"}, "Load"));
  }

  function compressForm() {
    const model = h("select", {name: "model"});
    const step = h("select", {name: "step", onchange: showField}, Object.entries(STEPS).map(([name, [label]]) => h("option", {value: name}, label)));
    const value = h("input", {name: "value", autocomplete: "off"});
    const caption = h("span");
    const field = h("label", {hidden: true}, caption, value);
    const name = h("input", {name: "model_id", required: true, autocomplete: "off", spellcheck: "false"});
    function showField() {
      const [, needs] = chosen();
      field.hidden = !needs;
      caption.textContent = needs?.label ?? "";
      value.value = needs?.value ?? "";
    }
    /** @returns {any} */
    const chosen = () => STEPS[/** @type {keyof typeof STEPS} */ (step.value)];
    const form = h("form", {class: "panel", onsubmit: submitted(() => {
      const [, needs] = chosen();
      const steps = [{step: step.value, ...(needs && {[needs.name]: needs.read(value.value)})}];
      return run("compress", {model: model.value, model_id: name.value, steps}, `making ${name.value}`);
    })}, h("h2", null, "Compress a model"), h("label", null, "Model", model), h("label", null, "By", step), field,
    h("label", null, "Name of the new model", name), h("button", {class: "primary"}, "Compress"),
    h("p", {class: "soft"}, "Further steps, and several at once: ", h("code", null, "bertscope compress --help")));
    form.showModels = () => replace(model, context.models().map((/** @type {any} */ each) => h("option", null, short(each))));
    return form;
  }

  function update() {
    const manage = context.mayManage();
    forms.hidden = !manage;
    forms.lastElementChild.showModels();
    const models = context.models();
    replace(table, models.length ? modelTable(models, manage, remove) : h("p", null, "No model is loaded."));
  }

  /** @param {any} model */
  function remove(model) {
    if (window.confirm(`Unload ${short(model)}? Calls that run on it finish.`)) run("unload", {model: short(model)}, `unloading ${short(model)}`);
  }

  update();
  return {update, unmount: () => work.stop()};
}

/** @param {any[]} models @param {boolean} manage @param {(model: any) => void} remove */
function modelTable(models, manage, remove) {
  const heads = ["Model", "Architecture", "Layers × heads", "Parameters", "Longest text", "Runs on", "Weights", "Answers"];
  return h("table", null,
    h("thead", null, h("tr", null, heads.map((text, index) => h("th", {scope: "col", class: MEANT[index] && "number", ...(MEANT[index] && means(MEANT[index]))}, text)),
      manage && h("th", {scope: "col"}, h("span", {class: "visually-hidden"}, "Unload")))),
    h("tbody", null, models.map(model => h("tr", null,
      h("th", {scope: "row"}, short(model)),
      model.state === "ready" ? cells(model) : h("td", {colspan: heads.length - 1}, model.state),
      manage && h("td", null, h("button", {type: "button", onclick: () => remove(model), "aria-label": `Unload ${short(model)}`}, "Unload"))))));
}

/** The numbers of the table's columns, by their keys in `NUMBERS`. */
const MEANT = [null, null, "shape", "parameters", "longest", null, "weights", null];

/** @param {any} model */
function cells(model) {
  const texts = [model.architecture, `${model.layers} × ${model.heads}`, count(model.parameters), `${model.max_tokens} tokens`,
    `${model.runtime} ${model.device}, ${model.precision}`, count(model.weight_bytes, "B"), model.capabilities.join(", ").replaceAll("_", " ")];
  return texts.map((text, index) => h("td", {class: MEANT[index + 1] && "number"}, text));
}

/** @param {any} model */
const short = model => model.name.replace("models/", "");

/** @param {string} text */
function wholes(text) {
  return text.split(/[\s,+]+/).filter(Boolean).map(Number);
}

/** @param {() => unknown} act */
const submitted = act => (/** @type {Event} */ event) => { event.preventDefault(); act(); };
