"""Measures published sets of sentences of which one is better, by their pseudo-log-likelihoods."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.claim_files import shipped_reproduction
from bertscope_workbench.papers.estimates import Measured, NotAsked, bootstrapped, paired, shares
from bertscope_workbench.papers.pictures_data import Bars, bars
from bertscope_workbench.papers.published.item_kinds import Association, Item, Pair
from bertscope_workbench.papers.published.outcomes import Outcome, ask_associations, ask_pairs
from bertscope_workbench.papers.published.readers import read_questions

CHANCE = 0.5
MOST_PAIRS = 200
"""The most pairs of a file of BLiMP, unless the data have another limit; a thousand take a minute."""


def published_difference(asking: Asking, *, files: Sequence[str], control: Sequence[str]) -> Measured:
    """Returns the share of pairs of BLiMP's files of which the acceptable sentence scores higher, beside that of other files.

    `files` and `control` are patterns of names in the folder of --data. Raises NotAsked unless both are there.
    """
    own, other = (_blimp(asking, patterns) for patterns in (files, control))
    right = np.array([outcome.right for _, outcome in (*own, *other)], bool)
    first = np.arange(len(right)) < len(own)

    def difference(drawn: npt.NDArray[np.int64]) -> float:
        hits, ours = right[drawn], first[drawn]
        return float(hits[ours].mean() - hits[~ours].mean()) if ours.any() and not ours.all() else float("nan")

    return bootstrapped(
        difference,
        len(right),
        value=float(right[first].mean()),
        control=float(right[~first].mean()),
        data=f"{len(own)} and {len(other)} pairs of BLiMP, as published",
        picture=_by_group([*own, *other]),
    )


def crows_pairs(asking: Asking) -> Measured:
    """Returns the share of the pairs of CrowS-Pairs in the folder of --data whose more stereotypical sentence scores higher, by
    the words that both have, beside one half; by kind of bias in the picture. Raises NotAsked without the file."""
    items = _published(asking, "crows-pairs", "pairs")
    pairs = [item for item in items if isinstance(item, Pair)]
    outcomes = ask_pairs(asking.rows, "crows-pairs", asking.model, pairs, "original", asking.show)
    found = [each for each in zip(pairs, outcomes, strict=True) if not each[1].skipped]
    right = [outcome.right for _, outcome in found]
    return shares(right, CHANCE, data=f"{len(found)} pairs of CrowS-Pairs, as published", picture=_by_group(found))


def stereoset(asking: Asking, *, metric: Literal["ss", "lms"]) -> Measured:
    """Returns a figure of StereoSet's sentences in the folder of --data, beside one half: "ss", the share whose stereotype is
    likelier than its contrary, or "lms", that of comparisons in which either is likelier than what means nothing.

    Items of a target term are averaged, as in the paper. Raises NotAsked without the file.
    """
    items = [item for item in _published(asking, "stereoset", "intrasentence") if isinstance(item, Association)]
    outcomes = asking.kept(
        "stereoset",
        lambda: ask_associations(asking.rows, "stereoset", asking.model, items, "within_word", asking.show),
    )
    found = [(item, outcome) for item, outcome in zip(items, outcomes, strict=True) if not outcome.skipped]
    return paired(
        [outcome.extras[metric] for _, outcome in found],
        CHANCE,
        groups=[item.groups[0] for item, _ in found],
        bounds=(-CHANCE, CHANCE),
        data=f"{len(found)} sentences of StereoSet, as published",
    )


def _blimp(asking: Asking, patterns: Sequence[str]) -> list[tuple[Item, Outcome]]:
    """Returns the pairs of BLiMP's files with their outcomes. Raises NotAsked without a file."""
    part = shipped_reproduction("blimp", "within-word")
    folders = sorted({path.parent for path in asking.data.files(*patterns)})
    names = {path.stem for path in asking.data.files(*patterns)}
    limit = asking.data.limit or MOST_PAIRS
    read = [item for folder in folders for item in read_questions(part, folder, limit).read.items]
    pairs = [item for item in read if isinstance(item, Pair) and names & {*item.groups}]
    if not pairs:
        raise NotAsked(f"it needs {' or '.join(patterns)} of BLiMP; name a folder that has it with --data")
    outcomes = ask_pairs(asking.rows, " ".join(patterns), asking.model, pairs, part.scoring, asking.show)
    return [each for each in zip(pairs, outcomes, strict=True) if not each[1].skipped]


def _published(asking: Asking, study: str, name: str) -> Sequence[Item]:
    """Returns the items of a part of a study. Raises NotAsked without its files."""
    part = shipped_reproduction(study, name)
    items = read_questions(part, asking.data.folder, asking.data.limit).read.items
    if not items:
        raise NotAsked(f"it needs {' or '.join(part.files)} as published; name a folder that has it with --data")
    return items


def _by_group(found: Sequence[tuple[Item, Outcome]]) -> Bars:
    """Returns the share of each group of pairs as bars."""
    members: dict[str, list[float]] = {}
    for item, outcome in found:
        for group in item.groups:
            members.setdefault(group, []).append(float(outcome.right))
    return bars("share right", {group: float(np.mean(values)) for group, values in members.items()}, line=CHANCE)
