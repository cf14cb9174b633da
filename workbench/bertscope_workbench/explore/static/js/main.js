// Starts the page: the state, the header, and the view that the state names.

import {createApi, server} from "./api.js";
import {createDescriptions} from "./described.js";
import {h, replace} from "./dom.js";
import {createHeader} from "./header.js";
import {createHelp} from "./help.js";
import {findKey} from "./key.js";
import {create as createLocked} from "./parts/locked.js";
import {createState} from "./state.js";
import {createTheme} from "./theme.js";
import {createTour} from "./tour.js";
import {VIEWS} from "./views/index.js";

const MODELS_SECONDS = 30;

await findKey(); // Before the state is read: the key's fragment is no state.
const state = createState(window, Object.keys(VIEWS)[0]);
const api = createApi();
const container = /** @type {HTMLElement} */ (document.querySelector("#view"));
const announcer = /** @type {HTMLElement} */ (document.querySelector("#announcer"));
const header = createHeader(state);
const locked = createLocked();
container.before(locked.element);
const theme = createTheme(/** @type {HTMLButtonElement} */ (document.querySelector("#theme")), () => open?.shown.update(state.get(), new Set(["theme"])));

/** @type {{models: any[], may_manage: boolean}} */
let loaded = {models: [], may_manage: false};
/** @type {{view: string, shown: {update: Function, unmount: Function}} | null} */
let open = null;
let opening = 0;
/** @type {string[]} */
let handed = [];
const described = createDescriptions(api, () => {
  open?.shown.update(state.get(), new Set(["described"]));
  tour.update();
});
const tour = createTour(state, () => context.model(), () => described(context.model()));
let roleKnown = false; // What the caller may do: asked once, and again after the server was gone.

/** What a view may use. */
const context = {
  state,
  api,
  /** "light" or "dark". */ theme: theme.get,
  /** The loaded models, as `client.list_models` gives them. */ models: () => loaded.models,
  /** The chosen model, or the default one; null while none is loaded. */
  model: () => loaded.models.find(model => model.name === `models/${state.get().model}`) ?? (state.get().model ? null : loaded.models[0] ?? null),
  /** What heads of the chosen model do; undefined while it is asked, null where it can't be known. */ described: () => described(context.model()),
  mayManage: () => loaded.may_manage,
  /** Asks which models are loaded. */ refreshModels,
  /** Opens another view with sentences, which no link holds. @param {Record<string, string>} patch @param {string[]} sentences */
  openWith: (patch, sentences) => { handed = sentences; state.set(patch); },
  /** The sentences that this view was opened with, once. */ handed: () => handed.splice(0),
  /** Says a text to those who listen to the page. @param {string} text */ announce: text => { announcer.textContent = text; },
};

async function refreshModels() {
  const found = {...loaded, ...await api.ask("models", {role: !roleKnown})};
  roleKnown = true;
  const changed = JSON.stringify(found) !== JSON.stringify(loaded);
  loaded = found;
  header.showModels(loaded.models, state.get().model ?? "");
  if (changed) open?.shown.update(state.get(), new Set(["models"]));
}

/** Opens the view of the state, or tells the open one what changed. @param {Record<string, string>} now @param {Set<string>} changed */
async function show(now, changed) {
  header.showView(now);
  if (changed.has("model")) {
    header.showModels(loaded.models, now.model ?? "");
    tour.update();
  }
  if (open?.view === now.view) {
    open.shown.update(now, changed);
    return;
  }
  open?.shown.unmount();
  open = null;
  const turn = ++opening;
  const view = VIEWS[now.view];
  document.title = view ? `${view.title} - bertscope` : "bertscope";
  if (!view) {
    replace(container, h("p", {class: "panel"}, `This page has no view "${now.view}".`));
    return;
  }
  const {mount} = await view.load();
  if (turn !== opening) return;
  replace(container);
  open = {view: now.view, shown: mount(container, context)};
  if (now.view === "explore" && context.model()) tour.offer();
}

createHelp(state, /** @type {HTMLButtonElement} */ (document.querySelector("#help")), tour.start);

async function start() {
  Object.assign(server, await api.ask("server", {}));
  await refreshModels();
  await show(state.get(), new Set());
}

/** @param {any} error */
function failed(error) {
  if (error.status === "PAGE_REFUSED") return; // The form for the key says what to do.
  if (!container.childElementCount) replace(container, h("p", {class: "panel", role: "alert"}, error.line?.() ?? String(error)));
}

api.onStatus(status => {
  header.showStatus(status);
  locked.show(status.kind === "locked");
  if (status.kind === "gone") roleKnown = false;
});
state.on(show);
window.addEventListener("focus", () => refreshModels().catch(() => {}));
setInterval(() => { if (!document.hidden) refreshModels().catch(() => {}); }, MODELS_SECONDS * 1000);
start().catch(failed);
