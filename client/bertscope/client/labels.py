# Generated from bertscope/questions/labels/calls.py. Do not edit: change that file, and run `make client`.
# Generated from uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls for labels, values and answers: `classify`, `classify_tokens`, `predict_values`, `answer_questions`."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial
from typing import SupportsIndex

from bertscope.client.many_texts import ManyTexts
from bertscope.client.streams import whole
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
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import classification_pb2, question_answering_pb2
from bertscope.values.interventions import Interventions
from bertscope.values.messages import Inputs, asked_inputs, with_items
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class LabelCalls(ManyTexts):
    """The methods of `Client` that give labels and values to texts, and answers to questions."""

    def classify_stream(
        self,
        inputs: Inputs,
        *,
        model: str | Model | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> Generator[ClassifiedText, None, None]:
        """Returns the probability of every label of a fine-tuned model for texts or pairs of texts.

        The probabilities of a text sum to 1, unless the model is multi-label: each label has its own then. Raises Unimplemented
        for a model without labels of texts (see `Model.capabilities`); `predict_values` asks for values.

        Arguments:
            inputs: A text, a tuple of two for a pair, or any number of either, also from a generator.
            model: The model's name or a `Model`; None means the server's default model.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than the model reads, and say so in the reply. False: such a text is an
                error.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
        """
        request = request_of(
            classification_pb2.ClassifyRequest,
            model=model,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        return self._answers(
            asked_inputs(inputs),
            partial(with_items, request, "inputs"),
            classification_pb2.ClassifyResponse,
            read_classified_texts,
            timeout,
            large=bool(request.reference_texts),
            on_rejected=on_rejected,
        )

    classify = whole(classify_stream, ClassifiedTexts)

    def classify_tokens_stream(
        self,
        inputs: ToTag | Iterable[ToTag],
        *,
        model: str | Model | None = None,
        top_k: SupportsIndex = 1,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> Generator[TaggedText, None, None]:
        """Returns the likeliest labels of each word of texts, and the mentions that they make: entities or chunks.

        Without marks, words are the tokenizer's own. The label of a word is that of its first piece (Devlin et al. 2019). Words
        are joined to mentions if the names of the model's labels say how: "B-PER" and "I-PER" (IOB1 and IOB2), IOBES or BILOU.
        Raises Unimplemented for a model that was not fine-tuned to label words (see `Model.capabilities`).

        Arguments:
            inputs: A string, a tuple of two for a pair, or a text with marked words: an `UnlabelledText`, or a `ProbeText`,
                whose labels are not sent; or any number of them, also from a generator.
            model: The model's name or a `Model`; None means the server's default model.
            top_k: Number of likeliest labels of each word, 1 to the number of labels. Words times `top_k` are at most 500,000.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than the model reads, and say so in the reply. False: such a text is an
                error.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
        """
        request = request_of(
            classification_pb2.ClassifyTokensRequest,
            model=model,
            top_k=top_k,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        return self._answers(
            asked_words(inputs),
            partial(with_items, request, "inputs"),
            classification_pb2.ClassifyTokensResponse,
            read_tagged_texts,
            timeout,
            large=bool(request.reference_texts),
            on_rejected=on_rejected,
        )

    classify_tokens = whole(classify_tokens_stream, TaggedTexts)

    def predict_values_stream(
        self,
        inputs: Inputs,
        *,
        model: str | Model | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> Generator[PredictedValue, None, None]:
        """Returns the value that a fine-tuned model gives to texts or pairs of texts: a rating, or the similarity of a pair.

        Raises Unimplemented for a model without the capability "regression" (see `Model.capabilities`).

        Arguments:
            inputs: A text, a tuple of two for a pair, or any number of either, also from a generator.
            model: The model's name or a `Model`; None means the server's default model.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than the model reads, and say so in the reply. False: such a text is an
                error.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
        """
        request = request_of(
            classification_pb2.PredictValuesRequest,
            model=model,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        return self._answers(
            asked_inputs(inputs),
            partial(with_items, request, "inputs"),
            classification_pb2.PredictValuesResponse,
            read_predicted_values,
            timeout,
            large=bool(request.reference_texts),
            on_rejected=on_rejected,
        )

    predict_values = whole(predict_values_stream, PredictedValues)

    def answer_questions_stream(
        self,
        questions: Questions,
        *,
        model: str | Model | None = None,
        best: int | None = None,
        max_answer_tokens: int | None = None,
        stride: int | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> Generator[AnsweredQuestion, None, None]:
        """Finds the spans of passages that answer questions best, with a model that was fine-tuned for it (on SQuAD, say).

        A passage that is longer than the model reads is read in windows. Raises Unimplemented for a model without such a head.

        Arguments:
            questions: A tuple (question, passage), or any number of them, also from a generator.
            model: The model's name or a `Model`; None means the server's default model.
            best: Number of spans to return for each question, 1 to 100; None means 3. There are fewer if the passage has fewer.
            max_answer_tokens: Most tokens of a span, 1 to 512; None means 30.
            stride: Number of passage tokens between the beginnings of two windows, at least 1 and at most the passage tokens
                that one window holds beside the question; None means 128, or half of what a window holds where that is less.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
        """
        request = request_of(
            question_answering_pb2.AnswerQuestionsRequest,
            model=model,
            best=best,
            max_answer_tokens=max_answer_tokens,
            stride=stride,
            interventions=interventions,
            reference_texts=reference_texts,
        )
        return self._answers(
            asked_questions(questions),
            partial(with_items, request, "inputs"),
            question_answering_pb2.AnswerQuestionsResponse,
            read_answered_questions,
            timeout,
            pace=self._pace_by(question_work, request.reference_texts, timeout),
            on_rejected=on_rejected,
        )

    answer_questions = whole(answer_questions_stream, AnsweredQuestions)
