"""Puts scores of relations and features into tables."""

from __future__ import annotations

import numpy as np
from bertscope import FeatureScores, RelationScore, RelationScores
from bertscope.questions.attention.selection import DIRECTIONS
from bertscope.questions.attention.sums import PerHead

from bertscope_workbench.studies.inquiry import head_name, percent
from bertscope_workbench.studies.report import Table

SAME = "; heads are chosen on the sentences that they are scored on"
"""The words of a caption about heads that are the highest of all."""
SHOWN_RELATIONS = 15
"""The relations of a table; those with most pairs."""


def largest_weights(found: RelationScores, caption: str) -> Table:
    """Returns Kovaleva's score: for each relation, in its better direction, the highest head and the one most above chance."""
    rows = []
    for score in most_pairs(found):
        direction = max(DIRECTIONS, key=lambda each: float(np.nanmax(score.largest_weight(each))))
        weights, chance = score.largest_weight(direction), score.largest_weight_by_chance(direction)
        first = place(weights)
        limit = float(np.nanpercentile(weights, 99))
        cells = ["–", "–", "–"]
        if np.isfinite(weights - chance).any():
            above = place(weights - chance)
            cells = [head_name(*above), f"{weights[above]:.3f}", f"{chance[above]:.3f}"]
        rows.append([
            score.relation, str(score.pairs), direction, head_name(*first), f"{weights[first]:.3f}", number(chance[first]),
            f"{limit:.3f}", str(int((weights > limit).sum())), *cells,
        ])  # fmt: skip
    columns = [
        "relation", "pairs#", "direction", "highest head#", "its weight#", "by chance#", "99th percentile#", "heads above it#",
        "head most above chance#", "its weight#", "by chance#",
    ]  # fmt: skip
    return Table(caption + " (layer:head, from 0)", columns, rows)


def accuracies(found: RelationScores, caption: str) -> Table:
    """Returns Clark's score: the best head of each relation beside its baselines, chosen on every second text with the relation
    and scored on the others."""
    rows = []
    for score in most_pairs(found):
        best = score.best()
        interval = "–" if best.interval is None else f"{100 * best.interval.low:.1f} to {100 * best.interval.high:.1f}"
        rows.append([
            best.relation, str(best.pairs), best.direction, head_name(best.layer, best.head),
            percent(best.chosen_accuracy) if best.chosen_on == "half" else "–", percent(best.accuracy), interval,
            f"{best.offset:+d}", percent(best.offset_accuracy), percent(best.chance), f"{best.percentile:.1f}",
        ])  # fmt: skip
    columns = [
        "relation", "pairs#", "direction", "best head#", "where chosen#", "finds#", "95 % interval#", "best distance#",
        "finds#", "by chance#",
        "percentile of the head#",
    ]  # fmt: skip
    return Table(f"{caption}; heads are chosen on every second sentence and scored on the others", columns, rows)


def feature_table(found: FeatureScores, other: FeatureScores | None) -> Table:
    """Returns the attention to each feature: the mean over heads, and the head that attends most; of both models, if two."""
    columns = ["feature", "texts#", "mean of heads#", "head that attends most#", "its attention#"]
    if other is not None:
        columns += ["fine-tuned: mean#", "head#", "its attention#", "most gained by a head#"]
    means = {name: score.attention.mean() for name, score in found.features.items() if score.attention.texts}
    rows = []
    for name, _ in ranked(means):
        row = [name, str(found[name].attention.texts), *attention_cells(means[name])]
        if other is not None:
            second = other.attention(name)
            row += [*attention_cells(second), gain(means[name], second)]
        rows.append(row)
    caption = f"attention to the token with the feature that gets most, mean over texts (layer:head){SAME}"
    return Table(caption, columns, rows)


def attention_cells(values: PerHead) -> list[str]:
    """Returns the mean, the highest head and its value."""
    first = place(values)
    return [f"{values.mean():.3f}", head_name(*first), f"{values[first]:.3f}"]


def gain(before: PerHead, after: PerHead) -> str:
    """Returns the largest increase of a head; a dash for models that are not alike."""
    if before.shape != after.shape:
        return "–"
    first = place(after - before)
    return f"{(after - before)[first]:+.3f} ({head_name(*first)})"


def most_pairs(found: RelationScores) -> list[RelationScore]:
    """Returns the relations with most pairs."""
    scored = [score for score in found.relations.values() if score.pairs]
    return sorted(scored, key=lambda score: -score.pairs)[:SHOWN_RELATIONS]


def ranked(values: dict[str, PerHead]) -> list[tuple[str, float]]:
    """Returns names with the means of their values, the highest first."""
    return sorted(((name, float(each.mean())) for name, each in values.items()), key=lambda item: -item[1])


def place(values: PerHead) -> tuple[int, int]:
    """Returns layer and head of the highest value."""
    layer, head = np.unravel_index(int(np.nanargmax(values)), values.shape)
    return int(layer), int(head)


def number(value: float) -> str:
    """Returns a weight; a dash for none."""
    return f"{value:.3f}" if np.isfinite(value) else "–"
