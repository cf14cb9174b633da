// The Sentences view: many texts, and what the model says of each and what heads do there, as a table; pairs of sentences, and
// sentences with linked words, are parts of their own.

import {replace} from "../dom.js";
import {createForm} from "./sentences_form.js";
import {createPairs} from "./sentences_pairs.js";
import {createRelations} from "./sentences_relations.js";
import {createRows} from "./sentences_rows.js";

/** @param {Element} container @param {any} context */
export function mount(container, context) {
  const form = createForm(context, (given, asker) => parts[form.asked()].ask(given, asker));
  const parts = /** @type {Record<string, any>} */ ({sentences: createRows(context, form), pairs: createPairs(context, form), relations: createRelations(context, form)});
  const place = form.results;
  replace(container, form.element, place);

  function update() {
    const part = parts[form.asked()];
    if (place.firstChild !== part.element) replace(place, part.element);
    part.update();
    form.update();
  }

  update();
  return {update, unmount: () => { form.stop(); parts.sentences.stop(); }};
}
