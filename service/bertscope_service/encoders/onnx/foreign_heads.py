"""Tells which head a graph of another program has, by the names and shapes of its outputs and its config.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertscope_service.encoders.base import Capabilities
from bertscope_service.encoders.heads import MULTI_LABEL, REGRESSION, Head, named_head
from bertscope_service.errors import FailedPrecondition

LOGITS, ANSWER, STATES = "logits", ("start_logits", "end_logits"), ("last_hidden_state", "token_embeddings")
"""Names of the outputs of optimum's exports: of a head, of one that answers questions, and of an encoder without a head, where
sentence-transformers' have a name of their own."""

EXAMPLE = (2, 3)
"""Texts and tokens of a trial run that shows the shapes of a graph's outputs, which a file need not declare."""

Outputs = Mapping[str, Sequence[int]]
"""The shapes of a graph's outputs for `EXAMPLE`, by name."""


@dataclass(frozen=True, slots=True)
class ForeignHead:
    """The head of a graph.

    outputs: the names of those that are read. width: numbers in each, for a text or a token. by_token: whether it has them for
    every token. labels, head_labels: see Shape.
    """

    outputs: tuple[str, ...]
    width: int
    by_token: bool
    capabilities: Capabilities
    labels: tuple[str, ...] = ()
    head_labels: tuple[str, ...] = ()


def head_of_graph(file: Path, config: Mapping[str, Any], outputs: Outputs, vocabulary: int, hidden_size: int) -> ForeignHead:
    """Returns the head. Raises FailedPrecondition for a graph that has none that is hosted, or that the config.json
    contradicts."""
    if set(ANSWER) <= set(outputs):
        for name in ANSWER:
            _check_shape(file, name, outputs[name], EXAMPLE)
        return ForeignHead(ANSWER, 1, True, _capable(question_answering=True))
    if LOGITS in outputs:
        return _scores(file, config, outputs[LOGITS], vocabulary)
    for name in STATES:
        if name in outputs:
            _check_shape(file, name, outputs[name], (*EXAMPLE, hidden_size))
            return ForeignHead((name,), hidden_size, True, _capable(last_states=True))
    message = (
        f"{file} gives {', '.join(outputs)}; bertscope hosts graphs that give {LOGITS}, {' and '.join(ANSWER)}, or "
        f"{' or '.join(STATES)}: export it for one of these tasks"
    )
    raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=file)


def _scores(file: Path, config: Mapping[str, Any], shape: Sequence[int], vocabulary: int) -> ForeignHead:
    rows, length = EXAMPLE
    if len(shape) == 2 and shape[0] == rows:
        return _of_text(file, config, shape[1])
    _check_shape(file, LOGITS, shape, (rows, length, shape[-1]))
    names = config.get("architectures") or ()
    known = bool(names) and any(any(str(name).endswith(head.suffixes) for head in Head) for name in names)
    labelled = isinstance(config.get("id2label"), Mapping) and len(config["id2label"]) == shape[-1] != vocabulary
    if named_head(names) is Head.TOKENS if known else labelled:
        labels = _labels(file, config, shape[-1])
        return ForeignHead((LOGITS,), len(labels), True, _capable(token_classification=True), head_labels=labels)
    if shape[-1] != vocabulary:
        message = (
            f"{file} gives {shape[-1]} scores a token and its config.json says vocab_size {vocabulary}; correct it or, if "
            "these are labels of tokens, let its architectures say ...ForTokenClassification"
        )
        raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=file)
    return ForeignHead((LOGITS,), vocabulary, True, _capable(masked_lm=True))


def _of_text(file: Path, config: Mapping[str, Any], count: int) -> ForeignHead:
    """Returns the head of a graph that gives each text some scores, as `heads` tells those of checkpoints apart."""
    problem = config.get("problem_type")
    if (count == 1 and problem is None) or problem == REGRESSION:
        if count != 1:
            message = (
                f"{file} gives {count} values a text and its config.json says problem_type {REGRESSION}; only one is hosted"
            )
            raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=file)
        return ForeignHead((LOGITS,), 1, False, _capable(regression=True))
    labels = _labels(file, config, count)
    if problem == MULTI_LABEL:
        return ForeignHead((LOGITS,), count, False, _capable(multi_label=True), head_labels=labels)
    if problem not in (None, "single_label_classification") or count < 2:
        message = f"{file} gives {count} scores a text and its config.json says problem_type {problem!r}; correct it"
        raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=file)
    return ForeignHead((LOGITS,), count, False, _capable(classification=True), labels=labels)


def _labels(file: Path, config: Mapping[str, Any], count: int) -> tuple[str, ...]:
    """Returns the names of the labels that a graph has scores of."""
    # If a config.json names none, they get the names that transformers gives them.
    names = config.get("id2label") or {str(number): f"LABEL_{number}" for number in range(count)}
    if not isinstance(names, Mapping) or set(names) != {str(number) for number in range(count)}:
        message = f"{file} gives {count} scores and its config.json does not name as many labels; correct id2label"
        raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=file)
    return tuple(str(names[str(number)]) for number in range(count))


def _check_shape(file: Path, name: str, found: Sequence[int], expected: Sequence[int]) -> None:
    if tuple(found) != tuple(expected):
        rows, length = EXAMPLE
        message = (
            f"{file} gives {name} of shape {list(found)} for {rows} texts of {length} tokens, not {list(expected)}; they must "
            "be by text or token"
        )
        raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=file)


def _capable(**has: bool) -> Capabilities:
    return Capabilities(observable=False, hidden_states=False, **has)
