// The views, in the order of their tabs. A view is a module with `mount(container, context)`, which returns
// {update(state, changed), unmount()}; it is loaded when it is first opened.

/** @typedef {{title: string, load: () => Promise<{mount: (container: Element, context: any) => {update: Function, unmount: Function}}>}} View */

/** @type {Record<string, View>} */
export const VIEWS = {
  explore: {title: "Explore", load: () => import("./explore.js")},
  compare: {title: "Compare", load: () => import("./compare.js")},
  sentences: {title: "Sentences", load: () => import("./sentences.js")},
  find: {title: "Find", load: () => import("./find.js")},
  layers: {title: "Layers", load: () => import("./layers.js")},
  trace: {title: "Trace", load: () => import("./trace.js")},
  models: {title: "Models", load: () => import("./models.js")},
};
