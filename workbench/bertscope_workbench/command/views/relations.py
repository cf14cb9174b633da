"""Prints the best heads of relations beside their baselines, and the heads that attend most to features."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bertscope import BestHead, Direction, FeatureScores, RelationScores
from bertscope.questions.attention.selection import DIRECTIONS, ChosenOn, Selection
from bertscope.questions.attention.sums import PerHead
from bertscope.values.documents import fields_of
from rich.console import Console
from rich.text import Text

from bertscope_workbench.analyses.trees import TreeScores
from bertscope_workbench.command.views.output import percent, plural, print_heading, printable, table, titled

Select = Selection | RelationScores
OF_HEADS = ("accuracy", "chance", "largest_weight", "largest_weight_by_chance")
ARROWS = {"forward": "→", "backward": "←"}

TITLES: dict[ChosenOn, str] = {
    "half": "chosen on every second text, scored on the others",
    "other": "chosen on other texts, scored on these",
    "same": "chosen on the texts that it is scored on, and finds less in others",
}
COMBINED: dict[ChosenOn, str] = {
    "half": "{pairs} of every second text, each by the head of its relation that is best in the others",
    "other": "all {pairs}, each by the head of its relation that is best in the other texts",
    "same": "all {pairs}, each by the head of its relation that is best in these same texts",
}


def document(
    scores: RelationScores,
    direction: Direction | None,
    select: Select = "half",
    control: RelationScores | None = None,
) -> dict[str, Any]:
    """Returns the scores in JSON types: the best head of each relation, and the numbers of all heads, [layers, heads].

    `select` says which texts choose the heads, as in `best_heads`; `control` is of an untrained model.
    """
    best = {each.relation: each for each in scores.best_heads(direction, select=select)}
    untrained = {each.relation: each for each in control.best_heads(direction)} if control else {}
    document = fields_of(scores, "layers", "heads", "texts") | {
        "relations": [
            {
                **fields_of(relation, "relation", "pairs", "skipped_pairs"),
                "offsets": [{"offset": offset, "pairs": pairs} for offset, pairs in relation.offsets.items()],
                "best": _best(best.get(relation.relation)),
                **({"control": _best(untrained.get(relation.relation))} if control else {}),
                **{each: {name: getattr(relation, name)(each).tolist() for name in OF_HEADS} for each in DIRECTIONS},
            }
            for relation in scores.relations.values()
        ],
        "combined": combined_document(scores, select),
    }
    return document | fields_of(scores, "provenance")


def print_models(screen: Console, models: Mapping[str, Sequence[BestHead]], top: int) -> None:
    """Prints a row for each relation and model, relations with most pairs first: the best head of each model."""
    names = dict.fromkeys(best.relation for heads in models.values() for best in sorted(heads, key=lambda best: -best.pairs))
    columns = ["relation", "model", "pairs#", "head#", "", "found#%", "95 %#100", "best offset#+", "finds#%", "chance#%"]
    rows = (
        [
            relation,
            model,
            best.pairs,
            *_place(best),
            best.accuracy,
            best.interval,
            best.offset,
            best.offset_accuracy,
            best.chance,
        ]
        for relation in [*names][:top]
        for model, heads in models.items()
        for best in heads
        if best.relation == relation
    )
    title = "the head that attends most often to the linked word most (layer:head), of each model"
    screen.print(titled(title, table(columns, rows)))
    screen.print("heads are chosen on every second text, and scored on the others", style="dim")


def combined_document(scores: RelationScores, select: Select = "half") -> dict[str, Any]:
    """Returns the shares of pairs that are found if each relation is looked up by its best head, or its best offset; the number
    of pairs, and the texts that heads are chosen on."""
    shares: dict[str, Any] = {each: scores.combined_accuracy(each, select=select) for each in DIRECTIONS}
    undirected, offset = scores.combined_accuracy(None, select=select), scores.combined_offset_accuracy(select=select)
    source = {"pairs": scores.combined_pairs(select), "chosen_on": scores.chosen_on(select)}
    return shares | {"undirected": undirected, "offset": offset} | source


def features_document(scores: FeatureScores) -> dict[str, Any]:
    """Returns the scores in JSON types: the numbers of all heads, [layers, heads]."""
    document = fields_of(scores, "layers", "heads", "texts") | {
        "features": [
            {
                "feature": name,
                "texts": score.attention.texts,
                "attention": score.attention.mean().tolist(),
                "from_first_special": score.from_first_special.mean().tolist(),
            }
            for name, score in scores.features.items()
        ]
    }
    return document | fields_of(scores, "provenance")


def print_relations(
    screen: Console,
    scores: RelationScores,
    direction: Direction | None,
    top: int,
    select: Select = "half",
    control: RelationScores | None = None,
) -> None:
    """Prints a row for each relation, most pairs first: its best head, and what it should beat.

    `select` says which texts choose the heads, as in `best_heads`; `control` is of an untrained model.
    """
    _print_heading(screen, scores)
    pairs = {relation.relation: relation.pairs for relation in scores.relations.values()}
    ordered = sorted(scores.best_heads(direction, select=select), key=lambda best: -pairs[best.relation])
    found = ordered[:top]
    untrained = {each.relation: each for each in control.best_heads(direction)} if control else {}
    intervals = any(best.interval is not None for best in found)
    held_out = any(best.chosen_on != "same" for best in found)
    rows = []
    for best in found:
        style = "green" if best.beats_offset else "dim" if best.above_offset is not None else ""
        other = untrained.get(best.relation)
        rows.append(
            [
                *(best.relation, best.pairs, best.chosen_accuracy if best.chosen_on != "same" else None, *_place(best)),
                *(Text(percent(best.accuracy), style=style), best.interval, best.offset, best.offset_accuracy, best.chance),
                other and other.accuracy,
            ]
        )
    columns = ["relation", "pairs#", "where chosen#%", "head#", "", "found#", "95 % interval#100"]
    result = table([*columns, "best offset#+", "finds#%", "chance#%", "untrained#%"], rows)
    kinds = {best.chosen_on for best in found} or {"same"}
    how = TITLES[next(each for each in TITLES if each in kinds)]
    screen.print(titled(f"the head that attends most often to the linked word most (layer:head), {how}", result))
    if intervals:
        screen.print("green: better than the best fixed offset, by the interval of the difference", style="dim")
    if held_out and "same" in kinds:
        screen.print("nothing where chosen: one text has the relation, on which its head is chosen and scored", style="yellow")
    if control:
        screen.print("untrained: the best head of a model of the same shape with random weights, chosen likewise", style="dim")
    print_combined(screen, scores, [direction] if direction else DIRECTIONS, select)
    rest = len(ordered) - len(found)
    skipped = sum(relation.skipped_pairs for relation in scores.relations.values())
    if rest:
        screen.print(f"not shown: {plural(rest, 'relation')} with fewer pairs (--top or --json shows them)", style="dim")
    if skipped:
        screen.print(f"not scored: {plural(skipped, 'pair')} of words without a piece of their own", style="yellow")
    for relation in scores.relations.values():
        if not relation.pairs:
            screen.print(printable(f"no pair: {relation.relation}"), style="yellow")


def print_combined(
    screen: Console,
    scores: RelationScores,
    directions: Sequence[Direction] = DIRECTIONS,
    select: Select = "half",
) -> None:
    """Prints how many pairs are found if each relation is looked up by its best head: in one direction of all, or in the better
    one of each."""
    pairs = scores.combined_pairs(select)
    if len(scores.relations) > 1 and pairs:
        heads = [f"{ARROWS[each]} {percent(scores.combined_accuracy(each, select=select))}" for each in directions]
        if len(directions) > 1:
            heads.append(f"undirected {percent(scores.combined_accuracy(None, select=select))}")
        offsets = percent(scores.combined_offset_accuracy(select=select))
        found = f"{', '.join(heads)}; by its best offset: {offsets}"
        screen.print(f"{COMBINED[scores.chosen_on(select)].format(pairs=plural(pairs, 'pair'))}: {found}")


def print_features(screen: Console, scores: FeatureScores) -> None:
    """Prints a row for each feature: the head that attends most to it, and the last layer's attention from the first token."""
    _print_heading(screen, scores)
    last = scores.layers - 1
    rows = []
    for name, score in scores.features.items():
        if not score.attention.texts:
            screen.print(printable(f"no text has the feature: {name}"), style="yellow")
            continue
        attention, first = score.attention.mean(), score.from_first_special.mean()[-1:]
        best = "{}:{}".format(*_largest(attention)), Text(f"{attention.max():.3f}", style="cyan")
        of_first = first.mean(), f"{last}:{_largest(first)[1]}", first.max()
        own = of_first if score.from_first_special.texts else [None] * 3
        rows.append([name, score.attention.texts, attention.mean(), *best, *own])
    columns = ["feature", "texts#", "mean of heads#.3f", "best head#", "attends#"]
    first_columns = [f"first token in layer {last}, mean#.3f", "best head#", "attends#.3f"]
    title = "attention to the token with the feature that gets most, and the first token's; means over texts (layer:head)"
    screen.print(titled(title, table([*columns, *first_columns], rows)))
    screen.print("best heads are chosen on the texts that they are scored on: in others they attend less", style="dim")


def trees_document(scores: TreeScores) -> dict[str, Any]:
    """Returns the scores in JSON types; arrays are [layers, heads], or [layers, 1] for means over heads."""
    found = {"directed": scores.directed_score().tolist(), "undirected": scores.undirected_score().tolist()}
    branching = fields_of(scores, "right_branching", "left_branching", "branching_undirected", "provenance")
    return fields_of(scores, "layers", "heads", "texts", "skipped_texts", "words") | found | branching


def print_trees(screen: Console, scores: TreeScores) -> None:
    """Prints a row for each layer: the shares of words with the right governor in its tree, or in that of its best head."""
    counts = plural(scores.texts, "text"), f"{plural(scores.words, 'word')} with a governor"
    print_heading(screen, scores.provenance.model, *counts)
    if scores.skipped_texts:
        screen.print(f"texts whose links are no tree: {scores.skipped_texts}", style="yellow")
    baseline = max(scores.right_branching, scores.left_branching)
    directed, undirected = scores.directed_score(), scores.undirected_score()
    rows = []
    for index, layer in enumerate(scores.layers):
        best = int(directed[index].argmax())
        found = float(directed[index, best])
        head = scores.heads[best] if scores.heads else None
        rows.append([layer, head, Text(percent(found), style="cyan" if found > baseline else ""), undirected[index, best]])
    result = table(["layer#", "best head#", "governor found#", "linked either way#%"], rows)
    screen.print(titled("words whose governor is the one in the maximum spanning tree of the map", result))
    if scores.heads:
        screen.print("best heads are chosen on the texts that they are scored on: in others they find less", style="dim")
    right, left = percent(scores.right_branching), percent(scores.left_branching)
    either = percent(scores.branching_undirected)
    screen.print(f"each word depends on the one before: {right}, on the one after: {left}; either way: {either}", style="dim")


def _print_heading(screen: Console, scores: RelationScores | FeatureScores) -> None:
    counts = plural(scores.texts, "text"), f"{scores.layers} x {scores.heads} heads"
    print_heading(screen, scores.provenance.model, *counts)


def _place(best: BestHead) -> tuple[str, str]:
    return f"{best.layer}:{best.head}", ARROWS[best.direction]


def _best(best: BestHead | None) -> dict[str, Any] | None:
    if best is None:
        return None
    names = [field.name for field in dataclasses.fields(best) if field.name != "relation"]
    return fields_of(best, *names, "beats_offset")


def _largest(values: PerHead) -> tuple[int, int]:
    layer, head = np.unravel_index(int(values.argmax()), values.shape)
    return int(layer), int(head)
