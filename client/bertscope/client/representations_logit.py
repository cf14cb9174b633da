# Generated from bertscope/questions/representations/logit_calls.py. Do not edit: change that file, and run `make client`.
# Generated from logit_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls that take predictions apart: `attribute_logits`."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial
from typing import SupportsIndex

from bertscope.client.many_texts import ManyTexts
from bertscope.client.streams import whole
from bertscope.questions.representations.attribution import (
    Answers,
    LogitAttribution,
    LogitAttributions,
    asked_attributions,
    read_attributions,
    text_of_attributed,
)
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import representation_lens_pb2
from bertscope.values.all_interventions import Interventions
from bertscope.values.messages import with_items
from bertscope.values.models import Model
from bertscope.values.requests import request_of
from bertscope.values.validation import TextOrPair


class LogitCalls(ManyTexts):
    """The methods of `Client` that take predictions apart."""

    def attribute_logits_stream(
        self,
        texts: TextOrPair | Iterable[TextOrPair],
        answers: Answers | Iterable[Answers],
        *,
        mask: SupportsIndex | None = None,
        ablate: bool = False,
        model: str | Model | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> Generator[LogitAttribution, None, None]:
        """Attributes the difference of two answers' logits at a mask to heads, feed-forward blocks, biases and the embeddings.

        The terms sum to the difference: layer normalisations are frozen at the statistics that they had, and the masked-LM
        head's activation at its factor. A term is what a part adds at the mask itself. One answer for each text, in order.

        Arguments:
            texts: Any number of texts or pairs, each with a mask.
            answers: A tuple (answer, other answer) for all texts, or one for each; each answer is a single entry of the
                vocabulary.
            mask: The number of the mask in each text, from 0; None means the only one.
            ablate: True: also measure how much the difference falls when each head is zeroed, which runs a text once for each
                head.
            model: The model's name or a `Model`; None means the server's default model.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than the model reads, and say so in the reply. False: such a text is an
                error, and so is one whose mask would be cut away.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
        """
        request = request_of(
            representation_lens_pb2.AttributeLogitsRequest,
            ablate=ablate,
            model=model,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        return self._answers(
            asked_attributions(texts, answers, mask),
            partial(with_items, request, "inputs"),
            representation_lens_pb2.AttributeLogitsResponse,
            read_attributions,
            timeout,
            pace=self._pace(text_of_attributed, request.reference_texts, timeout),
            on_rejected=on_rejected,
        )

    attribute_logits = whole(attribute_logits_stream, LogitAttributions)
