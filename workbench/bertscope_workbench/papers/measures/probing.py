"""Measures what linear probes read out of each layer: word by word, and of whole sentences.

The probe of a layer is trained on the treebank's train part, the dev part ends training and chooses the best layer, and
the test part is scored. Intervals are over test sentences.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from bertscope import KeptProbe, ProbeResult, ProbeText

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, NotAsked, bootstrapped, paired
from bertscope_workbench.papers.items.sentence_tasks import KINDS, SENTENCE_TASKS, sentence_task
from bertscope_workbench.papers.items.treebank import bank_of
from bertscope_workbench.papers.items.word_tasks import GENERATED_ONLY, WORD_TASKS
from bertscope_workbench.papers.measures.sentences import chosen_names, crossed
from bertscope_workbench.papers.pictures_data import ACROSS, Curves, curves

Above = Literal["control", "embeddings", "majority"]
Third = Literal["lower", "middle", "upper"]
THIRDS: tuple[Third, ...] = ("lower", "middle", "upper")
Right = npt.NDArray[np.bool_]
TASKS = (*WORD_TASKS, *SENTENCE_TASKS)
TASKS_AND_KINDS = (*TASKS, *KINDS)
CONFUSED = 3
"""Pairs of labels that a remark names of those that a probe confuses."""


@dataclass(frozen=True)
class Probed:
    """The probes of all layers on a task, and each answer on the test part."""

    task: str
    found: ProbeResult
    """The probes."""
    right: Right
    """[layers, spans], True where the answer is right."""
    sentences: tuple[str, ...]
    """The text of each span."""

    @property
    def best(self) -> int:
        """The layer that does best on the dev part."""
        return self.found.best_layer

    @property
    def control_task(self) -> list[float]:
        """The share of each layer's probe of random labels, one for each word."""
        return [one.control_accuracy for one in self.found.layers]


def probed(asking: Asking, task: str) -> Probed:
    """Returns the probes of a task of words or sentences. Raises NotAsked if the treebank does not have it."""
    return asking.kept(f"probe of {task}", lambda: train_and_apply(asking, task, *_parts(asking, task)))


def _parts(asking: Asking, task: str) -> tuple[list[ProbeText], list[ProbeText], list[ProbeText]]:
    bank = bank_of(asking)
    if task in SENTENCE_TASKS:
        parts = sentence_task(bank, task)
        if parts is None:
            raise NotAsked(f"too few sentences of the treebank have a label of the task {task!r}")
        return parts
    if task in GENERATED_ONLY and not bank.generated:
        raise NotAsked(f"a treebank of --data has no labels of the task {task!r}; leave --data out to ask it")
    return bank.parts(WORD_TASKS[task])


def train_and_apply(
    asking: Asking,
    task: str,
    train: list[ProbeText],
    dev: list[ProbeText],
    test: list[ProbeText],
    *,
    layers: Sequence[int] | None = None,
    truncate: bool = True,
) -> Probed:
    """Returns the probes of three parts, of all layers unless some are given, with each answer on the test part; texts that the
    model can't read whole are cut, or refused without `truncate`."""
    common: dict[str, Any] = {"model": asking.model, "truncate": truncate, "timeout": asking.timeout}
    found = asking.client.train_probe(train, dev=dev, test=test, layers=layers, weights=True, on_progress=asking.hear, **common)
    applied = asking.client.apply_probe(KeptProbe.of(found), test, **common)
    gold = [span.label for span in applied.spans]
    names = np.array(applied.labels, dtype=object)
    right = np.array([names[layer.classes[:, 0]] == gold for layer in applied.layers], bool)
    return Probed(task, found, right, tuple(str(test[span.text].text) for span in applied.spans))


def readable(asking: Asking, *, task: Annotated[str, TASKS], above: Above = "control") -> Measured:
    """Measures how often the best layer's probe is right, beside the control task of the same layer (Hewitt and Liang 2019,
    section 2), the embeddings' probe, or the most frequent class. The best layer is chosen on the dev part."""
    of = probed(asking, task)
    control: Right | float = of.right[0]
    if above != "embeddings":
        control = of.found.layer(of.best).control_accuracy if above == "control" else of.found.part.majority
    lines: dict[str, Sequence[float] | float] = {"control task": of.control_task, "most frequent class": of.found.part.majority}
    data = _data(asking, of.right.shape[1])
    notes = (f"best layer on the dev part: {of.best}", *_confused(of.found))
    return best_beside(of, control, groups=of.sentences, data=data, lines=lines, notes=notes)


def best_beside(
    of: Probed,
    control: Right | float,
    *,
    groups: Sequence[Hashable],
    data: str,
    lines: Mapping[str, Sequence[float] | float],
    notes: Sequence[str],
    bounds: tuple[float, float] = (-1.0, 1.0),
) -> Measured:
    """Returns how often the probe of the best layer is right, beside a control. `lines` are drawn beside its accuracy: a number
    for each layer, or one for all."""
    layers = of.found.layers
    drawn = {"probe": [one.accuracy for one in layers]}
    drawn |= {name: [line] * len(layers) if isinstance(line, float) else [*line] for name, line in lines.items()}
    return paired(
        _numbers(of.right[of.best]),
        control if isinstance(control, float) else _numbers(control),
        groups=groups,
        bounds=bounds,
        data=data,
        picture=curves(ACROSS, [one.layer for one in layers], "share right", drawn),
        notes=notes,
    )


def between_thirds(
    asking: Asking, *, tasks: Sequence[Annotated[str, TASKS_AND_KINDS]], first: Third, second: Third
) -> Measured:
    """Measures how often probes are right in a third of the states, beside another third, over tasks or a kind of tasks
    ("surface", "syntax", "semantics"). Tasks that the treebank does not have are left out, and said."""
    parts, missing = _several(asking, tasks)
    states = dict(zip(THIRDS, thirds_of(len(parts[0].right)), strict=True))
    own, other = (np.concatenate([_numbers(of.right[states[third]].mean(0)) for of in parts]) for third in (first, second))
    return paired(
        own, other, groups=[text for of in parts for text in of.sentences], bounds=(-1, 1),
        data=_data(asking, len(own)), picture=_by_layer(parts), notes=missing,
    )  # fmt: skip


def best_beside_last(asking: Asking, *, tasks: Sequence[Annotated[str, TASKS_AND_KINDS]]) -> Measured:
    """Measures how often probes of the last layer are right, beside those of each task's best layer on the dev part."""
    parts, missing = _several(asking, tasks)
    last, best = (np.concatenate([_numbers(of.right[of.best if own else -1]) for of in parts]) for own in (False, True))
    return paired(
        last, best, groups=[text for of in parts for text in of.sentences], bounds=(-1, 1),
        data=_data(asking, len(last)), picture=_by_layer(parts), notes=missing,
    )  # fmt: skip


def worst_beside_best(asking: Asking, *, task: Annotated[str, TASKS]) -> Measured:
    """Measures how often the probe of the worst layer above the first third of the states is right, chosen on other sentences,
    beside the best layer's."""
    of = probed(asking, task)
    lower, middle, upper = thirds_of(len(of.right))
    rows = [[text == one for text in of.sentences] for one in dict.fromkeys(of.sentences)]
    means = np.array([of.right[:, own].mean(1) for own in rows])
    falls, chosen = crossed(-means[:, [*middle, *upper]])
    worst = chosen_names([f"layer {lower[-1] + 1 + one}" for one in chosen])
    return paired(
        -falls, means[:, of.best], bounds=(-1, 1), data=_data(asking, of.right.shape[1]), picture=_by_layer([of]),
        notes=(f"states up to {lower[-1]} are left out", worst),
    )  # fmt: skip


def ancestors_fall(asking: Asking) -> Measured:
    """Measures how much less is read of the relation two steps up the tree than of the word's own, at each one's best layer.

    Of both, the share of the most frequent class's errors that the probe avoids (Liu et al. 2019 ask for constituents).
    """
    near, far = (probed(asking, task) for task in ("own relation", "head's head's relation"))
    middle = probed(asking, "head's relation")
    sentences = list(dict.fromkeys(near.sentences))
    counts = [np.array(_counts(of, sentences)) for of in (far, near)]
    bases = [of.found.part.majority for of in (far, near)]

    def skill(which: int, chosen: npt.NDArray[np.int64]) -> float:
        right, total = counts[which][chosen].sum(0)
        return float((right / total - bases[which]) / (1 - bases[which]))

    everything = np.arange(len(sentences))
    return bootstrapped(
        lambda chosen: skill(0, chosen) - skill(1, chosen), len(sentences), value=skill(0, everything),
        control=skill(1, everything), data=_data(asking, len(near.sentences)), picture=_by_layer([near, middle, far]),
    )  # fmt: skip


def thirds_of(states: int) -> list[list[int]]:
    """Returns the states of each third, from the embeddings to the last. Raises NotAsked for fewer than three."""
    if states < len(THIRDS):
        raise NotAsked(f"the model has {states} states; thirds need three")
    return [part.tolist() for part in np.array_split(np.arange(states), len(THIRDS))]


def _several(asking: Asking, tasks: Sequence[str]) -> tuple[list[Probed], list[str]]:
    """Returns the probes of tasks, and remarks about those that can't be asked."""
    names = [name for task in tasks for name in KINDS.get(task, (task,))]
    found, missing = [], []
    for name in names:
        try:
            found.append(probed(asking, name))
        except NotAsked as error:
            missing.append(str(error))
    remarks = [*dict.fromkeys(missing)]
    if not found:
        raise NotAsked("; ".join(remarks))
    return found, remarks


def _counts(of: Probed, sentences: Sequence[str]) -> list[tuple[int, int]]:
    """Returns right answers of the best layer and all answers, of each sentence."""
    totals = dict.fromkeys(sentences, (0, 0))
    for text, right in zip(of.sentences, of.right[of.best].tolist(), strict=True):
        hits, spans = totals[text]
        totals[text] = hits + right, spans + 1
    return list(totals.values())


def _by_layer(parts: Sequence[Probed]) -> Curves:
    lines = {of.task: [one.accuracy for one in of.found.layers] for of in parts}
    return curves(ACROSS, [one.layer for one in parts[0].found.layers], "share right", lines)


def _confused(found: ProbeResult) -> list[str]:
    """Returns what the best layer's probe confuses most, in words."""
    pairs = [f"{gold} for {answer}" for gold, answer, _ in found.confusions()[:CONFUSED]]
    return [f"most confused: {', '.join(pairs)}"] if pairs else []


def _numbers(right: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return right.astype(np.float64)


def _data(asking: Asking, items: int) -> str:
    bank = bank_of(asking)
    return f"{items:,} answers about {len(bank.test):,} test sentences; {len(bank.train):,} to train on; {bank.source}"
