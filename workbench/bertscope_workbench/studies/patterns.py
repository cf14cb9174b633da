"""Sections 4.1 and 4.3 of Kovaleva et al. 2019: the classes of maps, and how fine-tuning changes maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from bertscope import AttentionComparison, AttentionDescription
from bertscope.values.models import short_name
from bertscope.values.validation import TextOrPair

from bertscope_workbench.plots.attention_statistics import plot_description
from bertscope_workbench.plots.comparison import plot_comparison
from bertscope_workbench.studies.inquiry import Inquiry, head_name, percent
from bertscope_workbench.studies.report import LeftOut, Section, Table
from bertscope_workbench.studies.tasks import task


def patterns(inquiry: Inquiry, section: Section) -> None:
    """Fills in section 4.1: sentences of the treebank, and pairs of texts."""
    section.methods.append("describe_attention")
    data = inquiry.data
    pairs = next((labelled for labelled in data.labelled if labelled.of_pairs), None)
    if data.treebank is not None:
        section.commands.append(inquiry.command("attention", "--describe", "--texts", path=data.treebank))
        described(inquiry, section, data.texts(), f"sentences of {data.treebank}")
    elif single := next((labelled for labelled in data.labelled if not labelled.of_pairs), None):
        described(inquiry, section, single.inputs, f"texts of {single.path}")
    if pairs is None:
        section.left_out.append("block, a class of pairs of texts: the folder has no file of pairs")
    else:
        names = ",".join(f"{name}={column}" for name, column in pairs.columns.items() if name != "label")
        section.commands.append(inquiry.command("attention", "--describe", "--columns", names, "--texts", path=pairs.path))
        described(inquiry, section, pairs.inputs, f"pairs of {pairs.path}")


def described(inquiry: Inquiry, section: Section, texts: Sequence[TextOrPair], what: str) -> None:
    """Describes the maps of texts: the classes by layer, and the statistics of heads."""
    found = inquiry.many(section, f"4.1 {what}", inquiry.client.describe_attention, texts)
    section.files.append(f"{found.texts} {what}, {found.tokens} tokens")
    section.parts.append(classes(found, f"maps of each class, {what}"))
    inquiry.draw(section, plot_description(found, dark=inquiry.dark), f"Classes of maps by layer: {what}")
    statistics = plot_description(found, "statistics", dark=inquiry.dark)
    inquiry.draw(section, statistics, f"Statistics of every head: {what}")
    counts = {name: int(pattern.texts.sum()) for name, pattern in found.patterns.items()}
    total = max(1, sum(counts.values()))
    shares = ", ".join(f"{name.replace('_', ' + ')} {percent(count / total)}" for name, count in counts.items())
    section.found.append(f"{what[0].upper()}{what[1:]}: {shares}.")


def classes(found: AttentionDescription, caption: str) -> Table:
    """Returns the share of each class among the maps of each layer."""
    counts = np.stack([pattern.texts.sum(1) for pattern in found.patterns.values()])
    shares = counts / np.maximum(counts.sum(0), 1)
    rows = [[str(layer), *map(percent, shares[:, index].tolist())] for index, layer in enumerate(found.layers)]
    return Table(caption, ["layer#", *(f"{name.replace('_', ' + ')}#" for name in found.patterns)], rows)


def change(inquiry: Inquiry, section: Section) -> None:
    """Fills in section 4.3: on the labelled texts of the copy's task if there are any, else on others, else on the treebank."""
    section.methods.append("compare_attention")
    if inquiry.fine_tuned is None:
        raise LeftOut("no fine-tuned copy is named: --fine-tuned MODEL")
    data = inquiry.data
    labelled = task(inquiry, inquiry.fine_tuned, section) or (data.labelled[0] if data.labelled else None)
    texts = labelled.inputs if labelled else data.texts()
    if not texts:
        raise LeftOut("the folder has no texts but those with roles")
    path = labelled.path if labelled else data.treebank
    words = ["attention", "--compare", short_name(inquiry.fine_tuned)]
    if labelled:
        names = ",".join(f"{name}={column}" for name, column in labelled.columns.items() if name != "label")
        words += ["--columns", names]
    section.commands.append(inquiry.command(*words, "--texts", path=path))
    found = inquiry.many(section, "4.3 two models", inquiry.client.compare_attention, texts, inquiry.fine_tuned)
    section.files.append(f"{found.texts} texts of {path}, {found.tokens} tokens")
    section.parts.append(cosines(found))
    caption = "How differently each head attends in the two models"
    inquiry.draw(section, plot_comparison(found, dark=inquiry.dark), caption)
    means = found.cosine.mean().mean(1)
    order = np.argsort(means)
    section.found.append(
        f"Mean cosine of all heads {means.mean():.3f}; layer {order[0]} changes most ({means[order[0]]:.3f}), "
        f"layer {order[-1]} least ({means[order[-1]]:.3f})."
    )


def cosines(found: AttentionComparison) -> Table:
    """Returns the mean cosine and divergence of each layer, and the head that changes most."""
    cosine, error = found.cosine.mean(), found.cosine.standard_error()
    divergence = found.divergence.mean()
    rows = []
    for layer in range(found.layers):
        head = int(cosine[layer].argmin())
        lowest = f"{cosine[layer, head]:.3f} ± {error[layer, head]:.3f}"
        rows.append(
            [str(layer), f"{cosine[layer].mean():.3f}", head_name(layer, head), lowest, f"{divergence[layer].mean():.4f}"]
        )
    columns = ["layer#", "mean cosine#", "head that changes most#", "its cosine ± standard error#", "mean divergence, nats#"]
    return Table("maps of the two models, by layer", columns, rows)
