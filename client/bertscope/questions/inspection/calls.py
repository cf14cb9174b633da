"""Calls that look at one text: `inspect`, `stream_inspection`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from bertscope.questions.inspection.assembly import Event, InspectionAssembler
from bertscope.questions.inspection.results import Inspection, MapView, view_message
from bertscope.rpc.async_connection import AsyncConnection
from bertscope.rpc.async_streams import AsyncReading, gathered
from bertscope.v1 import inspection_pb2
from bertscope.values import validation
from bertscope.values.interventions import Interventions
from bertscope.values.messages import text_input
from bertscope.values.models import Model
from bertscope.values.requests import request_of
from bertscope.values.validation import TextOrPair

__all__ = ["AsyncInspectionStream"]


class AsyncInspectionStream(AsyncReading[Event, Inspection]):
    """A running inspection: gives an `InspectionStart` with the predictions, then `InspectionDistances` if two runs are
    compared, then the `InspectedMaps` of each view; or all of them as a `table`, an `Inspection`.

    The call begins at the first read. Leaving it as a context manager, or `aclose`, cancels it.

    >>> async with client.stream_inspection("Paris is the capital of [MASK].") as events:  # doctest: +SKIP
    ...     async for event in events:
    ...         print(event)
    """

    what = "inspection"


class AsyncInspectionCalls(AsyncConnection):
    """The methods of `AsyncClient` that look at one text."""

    def stream_inspection(
        self,
        text: TextOrPair,
        *,
        model: str | Model | None = None,
        top_k: SupportsIndex | None = None,
        candidates: str | Iterable[str] | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        compare_untouched: bool = False,
        divergences: bool = False,
        maps: MapView | Iterable[MapView] = (),
        words: bool = False,
        timeout: float | None = None,
    ) -> AsyncInspectionStream:
        """Streams predictions of a text's masks, how far each head's attention moved, and maps, all from one run of the model.

        `text` is a text or a pair. The predictions are those of `fill_mask`: `top_k`, 5 unless set, and the `candidates`, each
        a single vocabulary entry. With `compare_untouched` and interventions the model also runs untouched: entries have scores
        of both runs, and `distances` say how far each head is from it, with Jensen-Shannon `divergences` if they are asked
        for. `maps` are up to 8 `MapView`, whole or as pictures; their rows and columns are pieces, or `words`.

        A text without a mask has no predictions, nor has a model without a masked-LM head (`masked_lm` is False then).

        Predictions come first, then distances, then maps. Closing the stream cancels the call, which frees its place on the
        server at once.
        """
        views = [maps] if isinstance(maps, MapView) else [*validation.many("maps", maps, "MapView objects")]
        request = request_of(
            inspection_pb2.InspectRequest,
            input=text_input(validation.text_or_pair("text", text)),
            model=model,
            top_k=top_k,
            candidates=candidates,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
            compare_untouched=compare_untouched,
            divergences=divergences,
            maps=[view_message(f"maps[{index}]", view) for index, view in enumerate(views)],
            level="word" if validation.flag("words", words) else "piece",
        )
        messages = self._stream(request, inspection_pb2.InspectResponse, self._seconds(timeout))
        return AsyncInspectionStream(InspectionAssembler(request), messages)

    inspect = gathered(stream_inspection, "inspect", Inspection)
