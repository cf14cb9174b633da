"""Measures how often words that must be likelier at a mask are, on items that ship and on published ones."""

import math
from collections.abc import Sequence
from typing import Annotated

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, NotAsked, paired
from bertscope_workbench.papers.items.contrasts import SETS, Contrast, of_choices, shipped_contrasts
from bertscope_workbench.papers.measures import Between
from bertscope_workbench.papers.measures.fillings import log_probabilities
from bertscope_workbench.papers.pictures_data import Bars, bars
from bertscope_workbench.papers.published.item_kinds import Choice, Read
from bertscope_workbench.papers.published.readers import READERS
from bertscope_workbench.papers.published.reproduction import Reproduction

OF_CHOICES = ("gulordava", "linzen", "marvin-linzen", "cprag", "role", "negation-simple", "negation-natural")
"""Readers that make choices and need no keys of their own but `skip_words`."""
OURS = "our own, Apache-2.0"
CHANCE = 0.5
HALVES = (-CHANCE, CHANCE)
SHOWN = 10
"""The best groups, and the worst, that a picture shows."""


def right_share(asking: Asking, *, items: Annotated[str, SETS]) -> Measured:
    """Returns the share of shipped items whose right words are likelier, beside one half; items of a group are averaged.

    `items` is a name in SETS. Raises NotAsked if the model's vocabulary can't write them.
    """
    contrasts, data = _shipped(items)
    scored = outcomes(asking, contrasts)
    groups = [item.group for item in contrasts]
    return paired(
        scored, CHANCE, groups=groups, bounds=HALVES, data=data, picture=_by_share(scored, groups), notes=_left_out(scored)
    )


def share_difference(asking: Asking, *, items: Annotated[str, SETS], control: Annotated[str, SETS]) -> Measured:
    """Returns the share of shipped items whose right words are likelier, beside that of other items on the same groups.

    Raises NotAsked without a group that both have.
    """
    own, other = ((_shipped(name), outcomes(asking, _shipped(name)[0])) for name in (items, control))
    means = [_means(found, [item.group for item in contrasts]) for (contrasts, _), found in (own, other)]
    both = [group for group in means[0] if group in means[1]]
    return paired(
        [means[0][group] for group in both],
        [means[1][group] for group in both],
        bounds=(-1.0, 1.0),
        data=f"{own[0][1]}; {other[0][1]}",
        picture=bars(
            "share right", {name: _mean(found) for name, found in ((items, own[1]), (control, other[1]))}, line=CHANCE
        ),
        notes=[*_left_out(own[1]), *_left_out(other[1])],
    )


def published_share(
    asking: Asking,
    *,
    reader: Annotated[str, OF_CHOICES],
    files: Sequence[str],
    group: str = "",
    right: Annotated[int, Between(0)] = 0,
    wrong: Annotated[int, Between(0)] = 1,
) -> Measured:
    """Returns the share of published items whose right word is likelier, beside one half.

    `reader` is a reader of studies that makes choices, `files` patterns of names in the folder of --data, `group` a group of
    its items; `right` and `wrong` are the compared options of each. Raises NotAsked without such files.
    """
    choices = _read(asking, reader, files)
    chosen = [
        Choice((item.options[right], item.options[wrong]), item.groups)
        for item in choices
        if len(item.options) > max(right, wrong)
    ]
    contrasts = of_choices(chosen, group)
    scored = outcomes(asking, contrasts, single=True)
    name = f"{sum(map(math.isfinite, scored))} items of {', '.join(files)}, as published"
    return paired(scored, CHANCE, bounds=HALVES, data=name, notes=_left_out(scored))


def outcomes(asking: Asking, items: Sequence[Contrast], *, single: bool = False) -> list[float]:
    """Returns for each item 1 if its right words are likelier, 0 if not, one half for a tie, and NaN if it can't be scored;
    with `single`, words of several pieces can't."""
    scores = log_probabilities(asking, (asked for item in items for asked in (*item.right, *item.wrong)), single=single)
    found = []
    for item in items:
        difference = math.fsum(scores.get(each, math.nan) for each in item.right) - math.fsum(
            scores.get(each, math.nan) for each in item.wrong
        )
        found.append(difference if math.isnan(difference) else 0.5 + 0.5 * float(difference > 0) - 0.5 * float(difference < 0))
    return found


def _shipped(name: str) -> tuple[list[Contrast], str]:
    contrasts = shipped_contrasts(name)
    return contrasts, f"{len(contrasts)} {SETS[name]} ({OURS})"


def _read(asking: Asking, reader: str, files: Sequence[str]) -> list[Choice]:
    """Returns the items of the folder's files. Raises NotAsked without one."""
    paths = asking.data.files(*files)
    if not paths:
        raise NotAsked(f"it needs {' or '.join(files)}; name a folder that has it with --data")
    part = Reproduction(reader, "", reader, tuple(files), "choice", ("accuracy",), {"skip_words": ("is", "are")})
    read = READERS[reader][1]
    found = [item for path in paths for item in [*read(part, path, Read())][: asking.data.limit]]
    return [item for item in found if isinstance(item, Choice)]


def _means(values: Sequence[float], groups: Sequence[str]) -> dict[str, float]:
    """Returns the mean of each group's values, but for those that are missing."""
    members: dict[str, list[float]] = {}
    for group, value in zip(groups, values, strict=True):
        if math.isfinite(value):
            members.setdefault(group, []).append(value)
    return {group: math.fsum(own) / len(own) for group, own in members.items()}


def _mean(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else math.nan


def _by_share(values: Sequence[float], groups: Sequence[str]) -> Bars:
    """Returns the best and the worst groups as bars."""
    means = sorted(_means(values, groups).items(), key=lambda each: -each[1])
    shown = means if len(means) <= 2 * SHOWN else [*means[:SHOWN], *means[-SHOWN:]]
    return bars("share right", dict(shown), line=CHANCE)


def _left_out(values: Sequence[float]) -> list[str]:
    missing = sum(map(math.isnan, values))
    return [f"{missing} items left out: the model can't read them, or write their words"] if missing else []
