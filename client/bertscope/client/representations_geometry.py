# Generated from bertscope/questions/representations/geometry_calls.py. Do not edit: change that file, and run `make client`.
# Generated from geometry_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls for the geometry of hidden states: `describe_geometry`, `compare_representations`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from bertscope.client.many_texts import ManyTexts, OnTexts
from bertscope.questions.representations.comparison import RepresentationComparison, read_comparison
from bertscope.questions.representations.geometry import GeometryDescription
from bertscope.questions.representations.geometry_replies import read_geometry
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import representation_geometry_pb2
from bertscope.values.all_interventions import Interventions
from bertscope.values.messages import Inputs, Numbers, asked_inputs, text_of, with_items
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class GeometryCalls(ManyTexts):
    """The methods of `Client` that describe the geometry of hidden states."""

    def describe_geometry(
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

        The states stay on the server, which sends sums over texts. `second_moments` are needed for `variance_shares` and
        `effective_rank`.

        Arguments:
            inputs: A text, a tuple of two for a pair, or any number of either, also from a generator.
            model: The model's name or a `Model`; None means the server's default model.
            layers: Layers to describe, each 0 (the embeddings) to layers of the model, none twice; None means all. The reply is
                in this order.
            pieces: True: a vector for each piece. False: one for each word, the mean of its pieces' states.
            special_tokens: True: special tokens ([CLS], [SEP]) have vectors too, a word each. False: they are left out.
            words: Words whose vectors are also summed by themselves, at most 1,000 of at most 1,000 code points, none empty,
                none twice; letter case is ignored. A word or piece counts as the text it covers. Those that no text has are no
                error.
            second_moments: True: also sum the products of the vectors' components. They take `hidden_size` * (`hidden_size` +
                1) * 2 bytes a layer in the reply, and, while a call runs, twice as many for each 1,024 tokens; more than 256
                MiB are an error.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than the model reads, and count them. False: such a text is an error.
            on_progress: Called with what is done so far; an exception in it ends the call.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
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
        return self._sum(answers, GeometryDescription.merge, asked.total, on_progress)

    def compare_representations(
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

        `model` runs untouched. A word has one vector, the mean of its pieces' states. Words that two models cut differently are
        joined until both agree. A text of fewer than four words is not compared. The states stay on the server, which sends
        sums over texts.

        Arguments:
            inputs: A text, a tuple of two for a pair, or any number of either, also from a generator.
            other_model: The second model, which may be the first one; None means the first one. It runs under the
                interventions.
            model: The model's name or a `Model`; None means the server's default model.
            layers: Layers of the first model, each 0 (the embeddings) to layers of the model, none twice; None means all.
            other_layers: Likewise of the second one; None means all, and the same as `layers` if both models are one.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than either model reads, and count them. False: such a text is an error.
            on_progress: Called with what is done so far; an exception in it ends the call.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
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
        return self._sum(answers, RepresentationComparison.merge, asked.total, on_progress)
