# Generated from bertscope/aio/classification.py. Do not edit: change that file, and run `make client`.
"""Calls for labels of texts: `classify`."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing
from functools import partial

from bertscope._messages import Inputs, Interventions, asked_inputs, with_items
from bertscope._rpc.splitting import OnRejected
from bertscope.classification import ClassifiedText, ClassifiedTexts, classify_request, read_classified_texts
from bertscope.client.many_texts import ManyTexts
from bertscope.models import Model
from bertscope.v1 import classification_pb2


class ClassificationCalls(ManyTexts):
    """The methods of `Client` that classify texts."""

    def classify(
        self,
        inputs: Inputs,
        *,
        model: str | Model | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        timeout: float | None = None,
    ) -> ClassifiedTexts:
        """Returns the probability of every label of a fine-tuned model for texts or pairs of texts.

        A tuple of two strings is one pair; a list or a generator is any number of texts or pairs, asked as in `fill_mask`.
        Raises Unimplemented for a model without labels (see `Model.labels`).
        """
        stream = self.classify_stream(
            inputs,
            model=model,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
            timeout=timeout,
        )
        with closing(stream) as answers:
            return ClassifiedTexts([answer for answer in answers])

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
        """Streams the results of `classify` in order, as they come, in memory that does not grow with the number of texts.

        `on_rejected` takes the index and the error of each text that the server rejects, which is then left out.
        """
        request = classify_request(model=model, interventions=interventions, reference_texts=reference_texts, truncate=truncate)
        build = partial(with_items, request, "inputs")
        asked, large = asked_inputs(inputs), bool(request.reference_texts)
        reply = classification_pb2.ClassifyResponse
        return self._answers(asked, build, reply, read_classified_texts, timeout, large=large, on_rejected=on_rejected)
