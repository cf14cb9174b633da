"""Messages of SweepSites, and a request, as a client gets and sends them."""

from collections.abc import Iterable
from inspect import signature
from typing import Any

import bertscope
from bertscope.questions.ablation.trace_assembly import TraceAssembler
from bertscope.questions.ablation.traced_pairs import asked_pairs, sweep_sites_request
from bertscope.v1 import ablation_sites_pb2, common_pb2, site_pb2

Response = ablation_sites_pb2.SweepSitesResponse
TARGET = bertscope.Answer("are", "is")
CLEAN, CORRUPTED = "The keys [MASK] here.", "The key [MASK] here."
WORDS = ("[CLS]", "The", "keys", "[MASK]", "here", ".", "[SEP]")
STARTS = (0, 0, 4, 9, 16, 20, 0)
SOURCE = common_pb2.Provenance(model="models/m", weights_digest="sha256:1", numbering=common_pb2.NUMBERING_ZERO_BASED)
UNSET: dict[str, Any] = dict.fromkeys(signature(sweep_sites_request).parameters) | {
    "each_unit": False,
    "paths": False,
    "interventions": (),
    "reference_texts": (),
}


def request(**given: Any) -> ablation_sites_pb2.SweepSitesRequest:
    return sweep_sites_request(**(UNSET | given))


def tokens(words: tuple[str, ...] = WORDS) -> list[common_pb2.Token]:
    return [
        common_pb2.Token(
            text=word,
            start=start,
            end=start + len(word),
            special=word in ("[CLS]", "[SEP]"),
            word=None if word in ("[CLS]", "[SEP]") else index - 1,
        )
        for index, (word, start) in enumerate(zip(words, STARTS, strict=True))
    ]


def start(total: int, pairs: int = 1, clean: float = 4.0, corrupted: float = -4.0, **given: Any) -> Response:
    values = ablation_sites_pb2.PairValues(tokens=tokens(), clean=clean, corrupted=corrupted, corrupted_tokens=tokens())
    settings: dict[str, Any] = {
        "positions": ablation_sites_pb2.POSITION_SCOPE_EACH,
        "direction": ablation_sites_pb2.PATCH_DIRECTION_RESTORE,
        "provenance": SOURCE,
    }
    message = ablation_sites_pb2.SiteSweepStart(total=total, pairs=[values] * pairs, **(settings | given))
    return Response(start=message)


def effect(
    layer: int, position: int | None, difference: float, *, count: int = 1, ratio: float | None = None, **given: Any
) -> ablation_sites_pb2.SiteEffect:
    share = difference / 8 if ratio is None else ratio
    return ablation_sites_pb2.SiteEffect(
        site=given.pop("site", site_pb2.SITE_STATE),
        layer=layer,
        position=position,
        count=count,
        sum=count * difference,
        sum_of_squares=count * difference**2,
        ratios=given.pop("ratios", count),
        ratio_sum=count * share,
        ratio_sum_of_squares=count * share**2,
        **given,
    )


def of(message: ablation_sites_pb2.SiteEffect) -> Response:
    return Response(effect=message)


def end(passes: int = 21) -> Response:
    summary = ablation_sites_pb2.SiteSweepSummary(layer_passes=passes, full_layer_passes=36, seconds=0.5, provenance=SOURCE)
    return Response(summary=summary)


def assembler(count: int = 1, earlier: bertscope.Trace | None = None, **given: Any) -> TraceAssembler:
    pairs = asked_pairs([CLEAN] * count, [CORRUPTED] * count, TARGET, None)
    return TraceAssembler(request(**given), pairs, earlier)


def read(messages: Iterable[Response], found: TraceAssembler) -> TraceAssembler:
    for message in messages:
        found.add(message)
    return found


PART = [start(3), of(effect(0, 2, 8)), of(effect(2, 2, 4)), of(effect(2, 3, -2)), end()]
