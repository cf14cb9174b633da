# Generated from geometry_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls for the geometry of hidden states: `describe_geometry`, `compare_representations`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from bertscope.questions.representations.comparison import RepresentationComparison, read_comparison
from bertscope.questions.representations.geometry import GeometryDescription
from bertscope.questions.representations.geometry_replies import read_geometry
from bertscope.rpc.async_many_texts import AsyncManyTexts, OnTexts
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import representation_geometry_pb2
from bertscope.values.all_interventions import Interventions
from bertscope.values.messages import Inputs, Numbers, asked_inputs, text_of, with_items
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class AsyncGeometryCalls(AsyncManyTexts):
    """The methods of `AsyncClient` that describe the geometry of hidden states."""

    async def describe_geometry(
        self,
        inputs: Inputs,
        *,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        pieces: bool = False,
        special_tokens: bool = False,
        words: str | Iterable[str] = (),
        second_moments: bool = False,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_progress: OnTexts | None = None,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> GeometryDescription:
        """Describes how alike the hidden states of each layer are: of any two words, of the words of a text, of one word.

        The states stay on the server, which sends sums over texts. A tuple of two strings is one pair of texts; a list or a
        generator is any number of texts or pairs. `layers` are all unless given: 0 is the embeddings, k the output of layer
        k - 1. A word has one vector, the mean of its pieces' states, or each piece has one with `pieces`; `special_tokens` have
        vectors only if that is set. `words` are those whose vectors are compared with each other, letter case ignored, 1,000 at
        most. `second_moments` are needed for `variance_shares` and `effective_rank`; each reply has hidden_size^2 * 2 bytes a
        layer more.

        `on_progress` is called after each call with a `TextsProgress`. A text that the server rejects (too long, empty) is an
        error, unless `on_rejected` takes its index and the error: then it is left out.
        """
        request = request_of(
            representation_geometry_pb2.DescribeGeometryRequest,
            model=model,
            layers=layers,
            pieces=pieces,
            special_tokens=special_tokens,
            words=words,
            second_moments=second_moments,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        asked = asked_inputs(inputs)
        answers = self._answers(
            asked,
            partial(with_items, request, "inputs"),
            representation_geometry_pb2.DescribeGeometryResponse,
            lambda _, reply: [read_geometry(reply, request)],
            timeout,
            pace=self._pace(text_of, request.reference_texts, timeout),
            on_rejected=on_rejected,
        )
        return await self._sum(answers, GeometryDescription.merge, asked.total, on_progress)

    async def compare_representations(
        self,
        inputs: Inputs,
        other_model: str | Model | None = None,
        *,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        other_layers: Numbers | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_progress: OnTexts | None = None,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> RepresentationComparison:
        """Compares the states of each two layers by linear CKA: those of `model`, or of `model` and `other_model`.

        `model` runs untouched, `other_model`, the same one unless given, under the interventions. `layers` are all unless set,
        0 is the embeddings; so are `other_layers`, or `layers` again within one model. A word has one vector, the mean of its
        pieces' states. Words that two models cut differently are joined until both agree. A text of fewer than four words is
        not compared. The states stay on the server, which sends sums over texts. Inputs, `on_progress` and `on_rejected` are as
        in `describe_geometry`.
        """
        request = request_of(
            representation_geometry_pb2.CompareRepresentationsRequest,
            other_model=other_model,
            model=model,
            layers=layers,
            other_layers=other_layers,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        asked = asked_inputs(inputs)
        answers = self._answers(
            asked,
            partial(with_items, request, "inputs"),
            representation_geometry_pb2.CompareRepresentationsResponse,
            lambda _, reply: [read_comparison(reply, request)],
            timeout,
            pace=self._pace(text_of, request.reference_texts, timeout),
            on_rejected=on_rejected,
        )
        return await self._sum(answers, RepresentationComparison.merge, asked.total, on_progress)
