"""Options for the number of a text that is explained, or measured under changes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bertscope import Answer, NextSentence, PassageAnswer, SimilarTo, TargetScale, TextLabel, TextValue, WordLabel
from bertscope.errors import invalid_argument
from bertscope.values.score_targets import ScoreTarget
from bertscope.values.validation import TextOrPair

from bertscope_workbench.command.groups import flag, option
from bertscope_workbench.command.views.output import UsageError
from bertscope_workbench.readers.traced_pairs import OWN, place_of

KINDS = ("answer", "label", "top_label", "word_label", "answer_span", "value", "similar_to", "next_sentence")
EACH_KIND = " ".join(KINDS)


@dataclass(frozen=True)
class TargetOptions:
    """The number: one kind, the same for all texts; or, of a file without one, that which each line names."""

    answer: str | None = option("--answer WORD", "The score of a word at the mask.")
    label: str | None = option("--label NAME", "The score of a label of the text.")
    top_label: bool = flag("--top-label", "The score of the label that the model prefers.")
    word_label: str | None = option(
        "--word-label WORD[=NAME]", "The score of a label of a word, or of its place 0-5; the preferred one unless named."
    )
    answer_span: str | None = option(
        "--answer-span WORDS", "The score of words of the second text, or of their place 0-5, as the answer."
    )
    value: bool = flag("--value", "The value of a regression model.")
    similar_to: str | None = option("--similar-to TEXT", "The cosine with the vector of another text.")
    next_sentence: bool = flag("--next-sentence", "The score of the second text following the first.")
    other: str | None = option(
        "--other NAME",
        "A word or label whose score is subtracted: why --answer are, and not --other is.",
        needs="answer label top_label word_label",
    )
    mask: int | None = option(
        "--mask", "With --answer: which mask, from 0, if there are several.", min=0, without=" ".join(KINDS[1:])
    )
    score_scale: TargetScale = option("--as", "The scale of scores.", default="logit", dashed=True, without="value similar_to")

    def __post_init__(self) -> None:
        """Rejects several numbers."""
        given = self.given
        if len(given) > 1:
            raise UsageError(f"{given[0]} and {given[1]} exclude each other; name one score")

    @property
    def given(self) -> list[str]:
        """The options that name a number."""
        return [f"--{name.replace('_', '-')}" for name in KINDS if getattr(self, name) not in (None, False)]

    def of(self, field: str, text: TextOrPair, own: Mapping[str, Any] | None = None) -> ScoreTarget:
        """Returns the number of a text. `own` has the columns of its line, if those name it."""
        if own is not None:
            named: dict[str, Any] = {name: str(own[name]) for name in OWN if own.get(name) not in (None, "")}
            if ("answer" in named) == ("label" in named):
                raise invalid_argument(
                    field, 'needs a value in the column "answer" or in "label"; or give an option for all texts'
                )
            return replace(self, **named)._target(field, text)  # of the same class
        return self._target(field, text)

    def _target(self, field: str, text: TextOrPair) -> ScoreTarget:
        scale = self.score_scale
        if self.answer is not None:
            return Answer(self.answer, self.other, self.mask, scale)
        if self.word_label is not None:
            word, _, label = self.word_label.partition("=")
            return WordLabel(place_of(field, text, word), label or None, self.other, scale)
        if self.answer_span is not None:
            if isinstance(text, str):
                raise invalid_argument(field, "is a single text; --answer-span is in the second text of a pair (--pair)")
            return PassageAnswer(place_of(field, text[1], self.answer_span), scale)
        if self.similar_to is not None:
            return SimilarTo(self.similar_to)
        if self.value:
            return TextValue()
        return NextSentence(scale) if self.next_sentence else TextLabel(self.label, self.other, scale)
