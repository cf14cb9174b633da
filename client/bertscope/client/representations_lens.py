# Generated from bertscope/questions/representations/lens_calls.py. Do not edit: change that file, and run `make client`.
"""Calls that read predictions between layers: `read_layers`."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from typing import SupportsIndex

from bertscope.client.many_texts import ManyTexts
from bertscope.client.streams import whole
from bertscope.questions.representations.lens import (
    LensText,
    LensTexts,
    ToRead,
    asked_readings,
    read_lens_texts,
    text_of_input,
)
from bertscope.questions.representations.tuned_lens import TEXTS_AT_A_TIME, Rejected, TunedLens, merged, requests_with
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import representation_lens_pb2
from bertscope.v1.representation_lens_pb2 import ReadLayersRequest
from bertscope.values.choices import LensNormalisation
from bertscope.values.interventions import Interventions
from bertscope.values.messages import Asked, Numbers, with_items
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class LensCalls(ManyTexts):
    """The methods of `Client` that read predictions between layers."""

    def read_layers_stream(
        self,
        texts: ToRead | Iterable[ToRead],
        *,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        top_k: SupportsIndex | None = None,
        candidates: str | Iterable[str] | None = None,
        all_pieces: bool = False,
        normalisation: LensNormalisation | None = None,
        lens: TunedLens | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> Generator[LensText, None, None]:
        """Reads the masked-LM head at every layer ("logit lens"): what each state of a position predicts.

        A text is a string with "[MASK]", a tuple of two for a pair, or a `LensInput`, of which some parts are read; any number
        of them, also from a generator. With `all_pieces` every piece of a text is read. `layers` are states: 0 the embeddings,
        k the output of layer k - 1; all unless given. Each reading has the `top_k` (5 unless set) likeliest entries, the
        entropy, the divergence from the last layer's distribution, and the scores of `candidates`, each a single entry of the
        vocabulary; a word of several is an error.

        `normalisation` "none" gives the head the states as they are, "final" after the model's last normalisation; unless set,
        "final" for a ModernBERT and "none" for all others. The last layer's predictions are those of `fill_mask` in any case.
        `lens` reads the other states through the maps that `train_lens` made; `layers` are then those that it has and the last,
        and `normalisation` is the lens's. A model with other weights than it was trained on is FailedPrecondition.

        One answer for each text, in order. `timeout` holds for each call. A rejected text is an error that names its index
        ("inputs[70000]"), unless `on_rejected` takes its index and the error: then it is left out.

        The calls begin when the first answer is requested. Closing the generator cancels running ones.
        """
        request = request_of(
            ReadLayersRequest,
            model=model,
            layers=layers,
            top_k=top_k,
            candidates=candidates,
            all_pieces=all_pieces,
            normalisation=normalisation,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        requests, asked = requests_with(request, lens), asked_readings(texts)
        if requests[1:]:
            return self._read_in_turn(asked, requests, on_rejected, timeout)
        return self._read(asked, requests[0], on_rejected, timeout)

    read_layers = whole(read_layers_stream, LensTexts)

    def _read(
        self,
        asked: Asked[representation_lens_pb2.LensInput],
        request: ReadLayersRequest,
        on_rejected: OnRejected | None,
        timeout: float | None,
    ) -> Generator[LensText, None, None]:
        return self._answers(
            asked,
            partial(with_items, request, "inputs"),
            representation_lens_pb2.ReadLayersResponse,
            read_lens_texts,
            timeout,
            pace=self._pace(text_of_input, request.reference_texts, timeout),
            on_rejected=on_rejected,
        )

    def _read_in_turn(
        self,
        asked: Asked[representation_lens_pb2.LensInput],
        requests: Sequence[ReadLayersRequest],
        on_rejected: OnRejected | None,
        timeout: float | None,
    ) -> Generator[LensText, None, None]:
        """Yields the answers of several requests about the same texts, each with all layers."""
        begin = 0
        while inputs := list(islice(asked.items, TEXTS_AT_A_TIME)):
            left, begin = dict(enumerate(inputs, begin)), begin + len(inputs)
            found: dict[int, list[LensText]] = {number: [] for number in left}
            for request in requests:
                reject = None if on_rejected is None else Rejected(left, on_rejected)
                numbers = list(left)
                some = Asked(iter([left[number] for number in numbers]), len(numbers), numbers)
                with closing(self._read(some, request, reject, timeout)) as answers:
                    answered = [answer for answer in answers]
                for number, answer in zip(left, answered, strict=True):
                    found[number].append(answer)
            for number in left:
                yield merged(found[number])
