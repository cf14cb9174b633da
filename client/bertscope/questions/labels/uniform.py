"""Declares the calls for labels, values and answers: `classify`, `classify_tokens`, `predict_values`, `answer_questions`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, SupportsIndex

from bertscope.questions.labels.answers import (
    AnsweredQuestion,
    AnsweredQuestions,
    Questions,
    asked_questions,
    question_work,
    read_answered_questions,
)
from bertscope.questions.labels.classification import (
    ClassifiedText,
    ClassifiedTexts,
    PredictedValue,
    PredictedValues,
    TaggedText,
    TaggedTexts,
    ToTag,
    asked_words,
    read_classified_texts,
    read_predicted_values,
    read_tagged_texts,
)
from bertscope.rpc.uniform import each
from bertscope.values.messages import Inputs, asked_inputs


class LabelCalls(Protocol):
    """The methods of `AsyncClient` that give labels and values to texts, and answers to questions."""

    @each(asked_inputs, read_classified_texts, ClassifiedTexts)
    def classify(self, inputs: Inputs) -> ClassifiedText:
        """Returns the probability of every label of a fine-tuned model for texts or pairs of texts.

        The probabilities of a text sum to 1, unless the model is multi-label: each label has its own then. Raises Unimplemented
        for a model without labels of texts (see `Model.capabilities`); `predict_values` asks for values.
        """

    @each(asked_words, read_tagged_texts, TaggedTexts)
    def classify_tokens(self, inputs: ToTag | Iterable[ToTag], *, top_k: SupportsIndex = 1) -> TaggedText:
        """Returns the likeliest labels of each word of texts, and the mentions that they make: entities or chunks.

        Without marks, words are the tokenizer's own. The label of a word is that of its first piece (Devlin et al. 2019). Words
        are joined to mentions if the names of the model's labels say how: "B-PER" and "I-PER" (IOB1 and IOB2), IOBES or BILOU.
        Raises Unimplemented for a model that was not fine-tuned to label words (see `Model.capabilities`).

        Arguments:
            inputs: A string, a tuple of two for a pair, or a text with marked words: an `UnlabelledText`, or a `ProbeText`,
                whose labels are not sent; or any number of them, also from a generator.
        """

    @each(asked_inputs, read_predicted_values, PredictedValues)
    def predict_values(self, inputs: Inputs) -> PredictedValue:
        """Returns the value that a fine-tuned model gives to texts or pairs of texts: a rating, or the similarity of a pair.

        Raises Unimplemented for a model without the capability "regression" (see `Model.capabilities`).
        """

    @each(
        asked_questions,
        read_answered_questions,
        AnsweredQuestions,
        work=question_work,
    )
    def answer_questions(
        self, questions: Questions, *, best: int | None = None, max_answer_tokens: int | None = None, stride: int | None = None
    ) -> AnsweredQuestion:
        """Finds the spans of passages that answer questions best, with a model that was fine-tuned for it (on SQuAD, say).

        A passage that is longer than the model reads is read in windows. Raises Unimplemented for a model without such a head.

        Arguments:
            questions: A tuple (question, passage), or any number of them, also from a generator.
        """
