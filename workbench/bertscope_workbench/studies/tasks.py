"""Finds the task of a classifier: the file of labelled texts that has its labels."""

from __future__ import annotations

from bertscope import Model

from bertscope_workbench.studies.data import Labelled


def fits(labelled: Labelled, model: Model) -> bool:
    """Returns True if the model has all labels of the file."""
    labels = {label for _, label in labelled.items}
    return all(label in model.labels if isinstance(label, str) else label < len(model.labels) for label in labels)
