"""Plans of applied probes: which pieces of which texts make up the spans to classify, and the sums over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.observers.pooling import Pooling
from bertscope_service.analyses.observers.probe_scores import Probes, ProbeScores, ProbeScoresObserver
from bertscope_service.analyses.probes import LabelledText, SpanPlaces, reason_missing, row_units
from bertscope_service.analyses.texts import check_finite, read_named_inputs
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import FailedPrecondition, InvalidArgument

MAX_ANSWERS = 500_000
"""Maximum of spans times layers times top_k of a call."""
ANSWER_BYTES = 8
MAX_SPAN_PIECES = 250_000
"""Maximum number of pieces in all spans of a call; one that is in several spans counts in each."""
NO_LABEL = -1


@dataclass(frozen=True, slots=True)
class ApplicationQuery:
    """An ApplyProbe request. The label of a span without one is NO_LABEL."""

    texts: Sequence[LabelledText]
    probes: Probes
    pooling: Pooling
    top_k: int
    truncate: bool


@dataclass(frozen=True, slots=True, eq=False)
class LayerAnswers:
    """The answers of one layer's probe. classes, probabilities: [spans, top_k]. confusions: int64 [entries, 3] of label, answer
    and spans, ascending."""

    classes: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    correct: int
    loss: float
    confusions: NDArray[np.int64]


class ApplicationPlan:
    """The rows for a query, and the conversion of their results to answers.

    uses: why each span or pair was left out, None if it was not. Raises InvalidArgument for a text that is too long or holds
    no token, for no span at all, and for a reply that is too large.
    """

    def __init__(self, query: ApplicationQuery, tokenizer: TextTokenizer) -> None:
        self.query = query
        self._check_size()
        self.uses: list[str | None] = []
        self._pieces = 0
        self.rows: list[tuple[TokenSequence, Observer]] = []
        labels = [np.zeros(0, dtype=np.int64)]
        inputs, fields = [text.input for text in query.texts], (text.field for text in query.texts)
        words = [[*text.spans, *text.others] for text in query.texts]
        read = read_named_inputs(tokenizer, inputs, fields, truncate=query.truncate, words=words)
        for text, tokenized in zip(query.texts, read, strict=True):
            places = SpanPlaces(tokenized, tokenizer)
            sides = [
                [places.of(span) for span in side] for side in ((text.spans, text.others) if text.others else (text.spans,))
            ]
            missing = [reason_missing(found) for found in zip(*sides, strict=True)]
            self.uses += missing
            used = [index for index, reason in enumerate(missing) if reason is None]
            if not used:
                continue
            labels.append(text.labels[used])
            for part, spans in row_units(sides, used, query.pooling, len(tokenized)):
                self._pieces += len(spans.positions)
                observer = ProbeScoresObserver(query.probes, spans, labels[-1][part].clip(min=0), query.top_k)
                self.rows.append((tokenized.sequence, observer))
        self.labels = np.concatenate(labels)
        """Label of each used span, int64 [spans]."""
        self._check_pieces()

    def _check_pieces(self) -> None:
        if self._pieces > MAX_SPAN_PIECES:
            message = (
                f"the spans have {self._pieces} pieces and one call takes {MAX_SPAN_PIECES}; send fewer texts or spans "
                "at a time"
            )
            raise InvalidArgument("inputs", message, "TOO_MANY_TOKENS", limit=MAX_SPAN_PIECES)

    def _check_size(self) -> None:
        spans, layers = sum(len(text.spans) for text in self.query.texts), len(self.query.probes.layers)
        if not spans:
            message = "inputs have no span, so there is nothing to classify; mark a word in one of them"
            raise InvalidArgument("inputs", message, "NO_SPAN")
        answers = spans * layers * self.query.top_k
        if answers > MAX_ANSWERS:
            message = (
                f"the reply would hold {answers} classes of spans, more than {MAX_ANSWERS}; send fewer texts, spans or probes "
                "at a time, or lower top_k"
            )
            raise InvalidArgument("inputs", message, "TOO_MANY_PREDICTIONS", limit=MAX_ANSWERS)

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply, bytes."""
        layers, top_k = len(self.query.probes.layers), self.query.top_k
        return len(self.uses) + ANSWER_BYTES * len(self.labels) * layers * (top_k + 1)

    def answers(self, results: Sequence[ProbeScores]) -> list[LayerAnswers]:
        """Returns the answers of each layer, ascending. Raises FailedPrecondition for states that are not finite, and
        InvalidArgument for probes whose scores are not."""
        layers = len(self.query.probes.layers)
        if not results:
            none = np.zeros((0, self.query.top_k), dtype=np.int64)
            empty = LayerAnswers(none, none.astype(np.float32), 0, 0.0, np.zeros((0, 3), dtype=np.int64))
            return [empty] * layers
        check_finite((np.array(0.0 if one.finite else np.nan) for one in results), "hidden states", "STATES_NOT_FINITE")
        classes, logs, own = (
            np.concatenate([getattr(one, name) for one in results], axis=1) for name in ("classes", "logs", "label_logs")
        )
        try:
            check_finite((logs, own))
        except FailedPrecondition:
            message = "the scores of these probes are not finite; their weights are too large, so train them again"
            raise InvalidArgument("probes", message, "PROBE_NOT_FINITE") from None
        return [self._layer(classes[index], logs[index], own[index]) for index in range(layers)]

    def _layer(self, classes: NDArray[np.int64], logs: NDArray[np.float32], own: NDArray[np.float32]) -> LayerAnswers:
        scored = self.labels != NO_LABEL
        pairs = np.stack([self.labels[scored], classes[scored, 0]], axis=1)
        kinds, counts = np.unique(pairs, axis=0, return_counts=True)
        return LayerAnswers(
            classes,
            np.exp(logs),
            correct=int((pairs[:, 0] == pairs[:, 1]).sum()),
            loss=float(-own[scored].sum(dtype=np.float64)),
            confusions=np.concatenate([kinds, counts[:, None]], axis=1),
        )
