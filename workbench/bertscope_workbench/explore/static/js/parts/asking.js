// What a view asks. Nothing is shown as the answer to another question: results are grey from the moment on at which the
// question changes, until they are its own; if there are none, they stay grey, or are hidden, with the reason at the top of the view.

import {aborted} from "../api.js";
import {create as createStatus} from "./status_line.js";

/** Why no model can be asked. @param {any} context */
export const noModel = ({state}) => (state.get().model ? `The server has no model "${state.get().model}": choose another one above.` : "No model is loaded: load one, under Models.");

/** Why nothing that needs a masked-LM head can be asked; "" if it can. @param {any} context */
export function withoutHead(context) {
  const model = context.model();
  if (!model) return noModel(context);
  const name = model.name.replace("models/", "");
  if (model.state !== "ready") return `${name} is ${model.state}.`;
  return model.capabilities.includes("cloze") ? "" : `${name} has no masked-LM head, which this view needs: choose a model that predicts words.`;
}

/**
 * Makes what asks the questions of a view, or of a part of it.
 * @param {any} context
 * @param {HTMLElement[]} results The elements whose contents answer the question; each may have a panel around it.
 */
export function create(context, results) {
  const asker = context.api.latest();
  const status = createStatus();
  const reason = createStatus("alert");
  reason.element.classList.add("reason");
  let waiting = false;
  let shown = false; // There are results of some question.
  let asked = ""; // The question of the results, or the one in flight; "" where there is none.

  /** @param {boolean} now @param {boolean} [old] */
  function mark(now, old = now) {
    waiting = now;
    for (const each of results) {
      each.classList.toggle("stale", old && shown);
      each.setAttribute("aria-busy", String(waiting));
    }
  }

  /** @param {boolean} hidden */
  function hide(hidden) {
    for (const each of results) /** @type {HTMLElement} */ (each.closest(".panel") ?? each).hidden = hidden;
  }

  /** Keeps old results grey, as their question has changed, and says why the new one isn't asked. @param {string} why */
  function refuse(why) {
    asker.stop();
    asked = "";
    mark(false, true);
    hide(false);
    status.clear();
    reason.note(why);
  }

  return {
    /** How it went, in a line at the foot. */ status,
    /** Why there is no answer: it belongs at the top. */ reason: reason.element,
    /**
     * Asks, unless this was asked last. Returns the last event; null where there is none: it was asked, a newer question took its
     * place, somebody stopped it, or it was refused, which is said.
     * @param {string} name @param {Record<string, any>} body @param {(event: any) => void} [onEvent] @param {any} [key] What the answer depends on besides.
     */
    async ask(name, body, onEvent, key) {
      const weights = context.models().filter((/** @type {any} */ each) => each === context.model() || each.name === `models/${body.other}`).map((/** @type {any} */ each) => each.weights_digest);
      const now = JSON.stringify([name, key ?? body, weights]);
      if (now === asked) return null;
      asked = now;
      mark(true);
      try {
        const last = await asker.ask(name, body, {onEvent: event => {
          hide(false);
          onEvent?.(event);
        }});
        reason.clear();
        mark(false);
        shown = true;
        return last;
      } catch (error) {
        if (asked !== now) return null;
        mark(false, true);
        if (aborted(error)) {
          status.note("Stopped.");
          return null;
        }
        asked = "";
        hide(false);
        status.clear();
        reason.error(error);
        if (shown && results.some(each => each.getClientRects().length)) reason.element.append(". What is grey answers the question before.");
        return null;
      }
    },
    /** Hides results, as nothing can be asked, and says why. @param {string} why */
    none(why) {
      refuse(why);
      hide(true);
    },
    refuse,
    /** True while an answer is on its way. */ waits: () => waiting,
    stop: asker.stop,
  };
}
