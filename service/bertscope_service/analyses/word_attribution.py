"""Attribution to words: divides one number of each text among its units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bertscope_service.analyses.lazy_sequence import LazySequence
from bertscope_service.analyses.observers.targets import LabelTarget, Target, WordLabelTarget
from bertscope_service.analyses.path_attribution import GradientWork, Steps
from bertscope_service.analyses.shapley import ExactShapley, Game, Occlusion, SampledShapley, Shares
from bertscope_service.analyses.site_attribution import SiteQuery, SiteWork
from bertscope_service.analyses.state_units import StatesInput, Unit
from bertscope_service.analyses.targets import TargetQuery, TargetReader, Unresolved
from bertscope_service.analyses.text_units import Absent, TextUnits, find_units
from bertscope_service.analyses.texts import check_finite, read_named_inputs
from bertscope_service.analyses.words import Span
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.observer import Observer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import InvalidArgument

UNIT_BYTES, TEXT_BYTES, SHARE_BYTES = 160, 200, 200
"""The memory of a unit, a text and a unit of a site in a reply, and of their results."""

Rows = Sequence[tuple[TokenSequence, Observer]]


class Method(Enum):
    """How a number is divided; see bertscope.v1.AttributionMethod."""

    SHAPLEY = "shapley"
    OCCLUSION = "occlusion"
    INTEGRATED_GRADIENTS = "integrated_gradients"
    GRADIENT = "gradient"
    FROZEN = "frozen"

    @property
    def needs_gradients(self) -> bool:
        """True for methods that run backwards."""
        return self not in (Method.SHAPLEY, Method.OCCLUSION)


@dataclass(frozen=True, slots=True)
class AttributedInput:
    """A text or pair, its marked parts, and its target; see bertscope.v1.AttributedText. `field` names it in errors."""

    text: str
    pair: str | None
    spans: tuple[Span, ...]
    target: TargetQuery
    field: str


@dataclass(frozen=True, slots=True)
class Settings:
    """How numbers are divided; see bertscope.v1.AttributeWordsRequest. `pairs` are the numbers of the pairs of orders."""

    method: Method
    absent: Absent
    exact_units: int
    pairs: range
    seed: int
    steps: int
    max_steps: int
    tolerance: float
    interactions: bool
    site: SiteQuery | None = None
    """Set: the number is divided among the units of a site in place of words."""


class Work(Protocol):
    """The rows for a text, round by round; `rows` is empty after the last round."""

    rows: Rows

    def advance(self, results: Sequence[Any]) -> None:
        """Takes one result for each of `rows`, and replaces `rows` by those of the next round."""

    @property
    def shares(self) -> Shares:
        """The number, divided; after the last round."""

    @property
    def evaluations(self) -> int:
        """The rows that ran."""


class ForwardWork:
    """Divides the number of a text by its values with some units absent, in one round."""

    def __init__(self, units: TextUnits, target: Target, game: Game, mask_id: int | None) -> None:
        """`mask_id` is None if absent units are deleted."""
        self._units, self._target, self._game, self._mask_id = units, target, game, mask_id
        self.rows: Rows = LazySequence(game.rows, self._row)
        self.evaluations = game.rows

    def _row(self, number: int) -> tuple[TokenSequence, Observer]:
        present = self._game.present(number)
        target = self._target if self._mask_id is not None else self._target.moved(self._units.kept(present))
        return self._units.without(present, self._mask_id), target

    def advance(self, results: Sequence[float]) -> None:
        values = np.array(results, dtype=np.float64)
        check_finite([values])
        self.shares: Shares = self._game.divide(values)
        self.rows = ()


class TextAttribution:
    """The rows for one text of a request, and its answer: first the row that its target needs, if any, then those of the
    method."""

    def __init__(
        self,
        units: TextUnits,
        target: Target | Unresolved,
        settings: Settings,
        mask_id: int | None,
        prompt: int,
        positions: NDArray[np.int64] | None,
    ) -> None:
        """`mask_id` is None if absent units leave no masks behind; `prompt`: code points before the text. positions: those of
        the units of a site, None without one."""
        self.units, self._settings, self._mask_id, self.prompt = units, settings, mask_id, prompt
        self._positions = positions
        self.label: int | None = None
        """The index of the label that is explained, as soon as it is known; None for targets without one."""
        self.first = isinstance(target, Unresolved)
        """True if the target needs a row of its own first."""
        self._work: Work | None = None
        if isinstance(target, Unresolved):
            self._unresolved = target
        else:
            self._begin(target)

    @property
    def rows(self) -> Rows:
        """The rows of the round that is to run; empty after the last one."""
        return [(self._unresolved.sequence, self._unresolved.observer)] if self._work is None else self._work.rows

    def advance(self, results: Sequence[Any]) -> None:
        """Takes one result for each of `rows`, and replaces these. Raises FailedPrecondition for scores that are not finite."""
        if self._work is not None:
            self._work.advance(results)
            return
        check_finite([results[0]])
        self._begin(self._unresolved.resolve(results[0]))

    def _begin(self, target: Target) -> None:
        if isinstance(target, (LabelTarget, WordLabelTarget)):
            self.label = target.labels[0]
        method, settings = self._settings.method, self._settings
        if not method.needs_gradients:
            self._work = ForwardWork(self.units, target, game_of(len(self.units), settings), self._mask_id)
            return
        steps = Steps(settings.steps, settings.max_steps, settings.tolerance) if method is Method.INTEGRATED_GRADIENTS else None
        if settings.site is not None and self._positions is not None:
            self._work = SiteWork(self.units.tokenized.sequence, self._positions, target, settings.site, steps)
            return
        self._work = GradientWork(self.units, target, self._mask_id, steps, frozen=method is Method.FROZEN)

    @property
    def work(self) -> Work:
        """The rows of the method, after the last round."""
        if self._work is None:
            raise ValueError("the target has not been found yet")
        return self._work


def game_of(units: int, settings: Settings) -> Game:
    """Returns the division of a text of so many units by a method without gradients."""
    if settings.method is Method.OCCLUSION:
        return Occlusion(units)
    if units <= settings.exact_units:
        return ExactShapley(units, interactions=settings.interactions)
    return SampledShapley(units, settings.pairs, settings.seed)


class AttributionPlan:
    """The plan of an AttributeWords request: its texts, each with its rows.

    Raises InvalidArgument for a text that is too long or has no units, for a target that is not there, and for too much work.
    """

    def __init__(
        self,
        inputs: Sequence[AttributedInput],
        unit: Unit,
        settings: Settings,
        tokenizer: TextTokenizer,
        reader: TargetReader,
        *,
        truncate: bool,
        max_row_tokens: int,
    ) -> None:
        """`max_row_tokens`: the most tokens of all rows."""
        self.settings = settings
        texts = [(given.target.prompt + given.text, given.pair) for given in inputs]
        fields = [given.field for given in inputs]
        marked = [() if given.target.prompt else given.spans for given in inputs]
        read = read_named_inputs(tokenizer, texts, fields, truncate=truncate, words=marked)
        mask_id = tokenizer.mask_id if settings.absent is Absent.MASK else None
        self.texts: list[TextAttribution] = []
        """The texts, in order."""
        tokens = 0
        for given, text in zip(inputs, read, strict=True):
            prompt = len(given.target.prompt)
            units = find_units(text, unit, _shifted(given), tokenizer, given.field, prompt)
            self._check(units, given, has_mask=tokenizer.mask_id is not None)
            positions = None
            if settings.site is not None:
                positions = settings.site.positions(text.sequence, tokenizer.mask_id, given.field)
            target = reader.read(given.target, text)
            self.texts.append(TextAttribution(units, target, settings, mask_id, prompt, positions))
            tokens += rows_at_most(len(units), settings) * len(text)
            if tokens > max_row_tokens:
                message = (
                    f"{given.field}: more than {max_row_tokens} tokens of work in all rows; send fewer texts at a time, sample "
                    "fewer pairs, with others in another call (first_pair), or name fewer parts of the text in spans"
                )
                raise InvalidArgument(given.field, message, "TOO_MANY_TOKENS", limit=max_row_tokens)

    def _check(self, units: TextUnits, given: AttributedInput, *, has_mask: bool) -> None:
        if self.settings.interactions and len(units) > self.settings.exact_units:
            message = (
                f"{given.field} has {len(units)} units and Shapley values are exact up to {self.settings.exact_units}; name "
                "fewer in spans, or leave interactions out"
            )
            raise InvalidArgument("interactions", message, "INTERACTIONS_NOT_EXACT")
        if self.settings.absent is not Absent.DELETED:
            return
        remedy = "let absent be ABSENT_TEXT_MASK" if has_mask else "the model has no mask token, so use a method with gradients"
        if given.target.at_words:
            message = f"{given.target.field} is read at words, which can't be deleted; {remedy}"
            raise InvalidArgument("absent", message, "ABSENT_UNSUPPORTED")
        if not len(units.kept(np.zeros(len(units), dtype=bool))):
            message = f"nothing of {given.field} is left without its words; {remedy}"
            raise InvalidArgument("absent", message, "ABSENT_UNSUPPORTED")

    @property
    def reply_bytes(self) -> int:
        """Approximate size of the reply, bytes."""
        if self.settings.site is not None:
            each = self.settings.site.top * SHARE_BYTES + 8 * len(self.settings.site.layers)
            return len(self.texts) * (TEXT_BYTES + each)
        square = 4 * self.settings.interactions
        return sum(TEXT_BYTES + len(text.units) * (UNIT_BYTES + square * len(text.units)) for text in self.texts)


def rows_at_most(units: int, settings: Settings) -> int:
    """Returns the most rows of a text of so many units."""
    if not settings.method.needs_gradients:
        return game_of(units, settings).rows
    steps = settings.steps if settings.method is Method.INTEGRATED_GRADIENTS else 1
    while settings.method is Method.INTEGRATED_GRADIENTS and 3 * steps <= settings.max_steps:
        steps *= 3
    if settings.site is not None:
        return len(settings.site.layers) * (steps + 1) + 1
    return steps + 1 + (settings.method is Method.INTEGRATED_GRADIENTS)


def _shifted(given: AttributedInput) -> StatesInput:
    """Returns a text with its marked parts as the model reads it: behind the prompt of its target."""
    prompt = given.target.prompt
    spans = tuple(Span(one.start + len(prompt), one.end + len(prompt), one.segment) for one in given.spans)
    return StatesInput(prompt + given.text, given.pair, spans)
