"""Finds the task of a classifier: the file of labelled texts that has its labels."""

from __future__ import annotations

from collections import Counter

from bertscope import Model
from bertscope.values.models import short_name

from bertscope_workbench.studies.data import Labelled
from bertscope_workbench.studies.inquiry import Inquiry
from bertscope_workbench.studies.report import Section

PROBED = 100
"""Texts of each file that a classifier tries, if several files have its labels."""


def task(inquiry: Inquiry, model: Model, section: Section) -> Labelled | None:
    """Returns the file that has the model's labels; of several, the one on which it beats the commonest label most. None if no
    file has them, or the model has none."""
    fitting = [
        labelled for labelled in inquiry.data.labelled if "classification" in model.capabilities and fits(labelled, model)
    ]
    held_out = [labelled for labelled in fitting if not labelled.for_training] or fitting
    if len(held_out) < 2:
        return next(iter(held_out), None)
    gains = inquiry.gains.setdefault(model.name, {})
    for labelled in held_out:
        if labelled.path not in gains:
            gains[labelled.path] = above_commonest(inquiry, model, labelled)
    tried = ", ".join(f"{path} {100 * gain:+.1f} points" for path, gain in gains.items())
    section.files.append(
        f"several files have labels of {short_name(model)}; above the commonest label it is most on the first {PROBED}: {tried}"
    )
    return max(held_out, key=lambda labelled: gains[labelled.path])


def fits(labelled: Labelled, model: Model) -> bool:
    """Returns True if the model has all labels of the file."""
    labels = {label for _, label in labelled.items}
    return all(label in model.labels if isinstance(label, str) else label < len(model.labels) for label in labels)


def above_commonest(inquiry: Inquiry, model: Model, labelled: Labelled) -> float:
    """Returns the accuracy on the first texts of a file, less the share of their commonest label."""
    items = labelled.items[:PROBED]
    inquiry.show(f"trying {labelled.path.name}", 0, len(items))
    answers = inquiry.client.classify([text for text, _ in items], model=model, truncate=True, timeout=inquiry.timeout)
    labels = [model.labels.index(label) if isinstance(label, str) else label for _, label in items]
    correct = sum(answer.labels[0].index == label for answer, label in zip(answers, labels, strict=True))
    return (correct - Counter(labels).most_common(1)[0][1]) / len(items)
