"""Section 4.6 of Kovaleva et al. 2019: heads and layers made uniform, one after another."""

from __future__ import annotations

from contextlib import closing

from bertscope import LabelledTexts, MaskedLmLoss, Model, Scope, SweepTable
from bertscope.questions.ablation.effects import BETTER
from bertscope.questions.ablation.objectives import Objective
from bertscope.values.models import short_name

from bertscope_workbench.plots.sweeps import plot_sweep
from bertscope_workbench.studies.inquiry import Inquiry, head_name
from bertscope_workbench.studies.report import LeftOut, Section, Table
from bertscope_workbench.studies.tasks import task

SHOWN = 5
"""Heads shown that help most, and that hurt most."""


def disabling(inquiry: Inquiry, section: Section) -> None:
    """Fills in section 4.6: accuracy of a classifier, else the loss of a masked-LM."""
    section.methods.append("sweep_heads")
    model, objective, words = measured(inquiry, section)
    name = short_name(model)
    for scope in ("heads", "layers"):
        table = sweep(inquiry, model, objective, scope)
        section.commands.append(" ".join(["bertscope sweep", words, "--mode uniform", f"--scope {scope}", f"--model {name}"]))
        metric = table.metric()
        if scope == "heads":
            baseline = ", ".join(f"{each} {value:.4f}" for each, value in table.baseline.items())
            section.files.append(f"{table.start.items} texts, untouched: {baseline}")
            if table.start.truncated_texts:
                section.left_out.append(f"the ends of {table.start.truncated_texts} texts, longer than the model reads")
        section.parts.append(effects(table, metric, f"each of the {scope} made uniform: {metric}"))
        caption = f"Difference in {metric} if each of the {scope} is made uniform, {name}"
        inquiry.draw(section, plot_sweep(table, metric, dark=inquiry.dark), caption)
        section.found.append(summary(table, metric))


def measured(inquiry: Inquiry, section: Section) -> tuple[Model, Objective, str]:
    """Returns the model to change, the objective, and its words on the command line."""
    data = inquiry.data
    models = [model for model in (inquiry.fine_tuned, inquiry.model) if model and "interventions" in model.capabilities]
    if not models:
        raise LeftOut(f"heads of {short_name(inquiry.model)} can't be changed (capability interventions)")
    limit = "" if data.limit is None else f" --limit {data.limit}"
    for model in models:
        labelled = task(inquiry, model, section)
        if labelled is not None:
            names = ",".join(f"{name}={column}" for name, column in labelled.columns.items())
            section.files.append(f"{labelled.path}, labelled texts; the classifier is {short_name(model)}")
            return (
                model,
                LabelledTexts(labelled.items, truncate=True),
                f"--labelled {labelled.path} --columns {names} --truncate{limit}",
            )
    why = "neither model has" if inquiry.fine_tuned else "the model has no"
    section.left_out.append(f"accuracy on a task: {why} labels that the labelled texts of the folder have")
    writer = next((model for model in reversed(models) if "cloze" in model.capabilities), None)
    if writer is None:
        raise LeftOut("the model has neither labels that labelled texts of the folder have, nor a masked-LM head")
    texts = [text for text in data.texts() if isinstance(text, str)]
    path = data.treebank
    if not texts:
        single = next((labelled for labelled in data.labelled if not labelled.of_pairs), None)
        if single is None:
            raise LeftOut("the folder has no single texts to measure the loss on")
        texts, path = [text for text in single.inputs if isinstance(text, str)], single.path
    section.files.append(
        f"{path}, 15 % of the words masked (TEXTS.txt has a text in each line); the masked-LM is {short_name(writer)}"
    )
    return writer, MaskedLmLoss(texts, truncate=True), "--texts TEXTS.txt --truncate"


def sweep(inquiry: Inquiry, model: Model, objective: Objective, scope: Scope) -> SweepTable:
    """Makes every head or layer uniform, and measures."""
    stage = f"4.6 {scope}"
    inquiry.show(stage, 0, None)
    with closing(inquiry.client.sweep_heads(objective, model=model, mode="uniform", scope=scope)) as running:
        total = running.start.total
        for done, _ in enumerate(running, start=1):
            inquiry.show(stage, done, total)
        return running.table()


def effects(table: SweepTable, metric: str, caption: str) -> Table:
    """Returns the sets that help most and those that hurt most; all layers."""
    order = sorted(table.effects, key=lambda effect: -effect.metrics[metric].benefit)
    if table.scope == "layers":
        order = [*table.effects]
    elif len(order) > 2 * SHOWN:
        caption += f"; the {SHOWN} best and the {SHOWN} worst of {len(order)}, chosen on these items: on others they do less"
        order = [*order[:SHOWN], *order[-SHOWN:]]
    rows = []
    for effect in order:
        change = effect.metrics[metric]
        where = str(effect.layer) if table.scope == "layers" else head_name(effect.layer or 0, effect.head or 0)
        interval = "–" if change.low is None or change.high is None else f"{change.low:+.4f} to {change.high:+.4f}"
        p = "–" if change.mcnemar_p is None else f"{change.mcnemar_p:.2g}"
        rows.append([where, f"{change.score:.4f}", f"{change.difference:+.4f}", interval, p])
    named = "layer#" if table.scope == "layers" else "head#"
    return Table(caption, [named, f"{metric}#", "difference#", "95 % interval#", "McNemar's p#"], rows)


def summary(table: SweepTable, metric: str) -> str:
    """Returns how many sets help and hurt."""
    changes = [effect.metrics[metric] for effect in table.effects]
    raised = sum(change.benefit > 0 for change in changes)
    better = "higher" if BETTER.get(metric, -1) > 0 else "lower"
    return (
        f"{metric}, {better} is better: with one of {len(changes)} {table.scope} made uniform it is better for {raised}, "
        f"by the interval for {sum(change.helped for change in changes)}; worse by the interval for "
        f"{sum(change.hurt for change in changes)}; of {len(changes)} without any effect, about "
        f"{len(changes) * (1 - table.confidence) / 2:.0f} would be better and as many worse."
    )
