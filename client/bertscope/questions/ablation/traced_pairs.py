"""The request of SweepSites: its scope, and pairs of a clean text and a corrupted one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import Any, NamedTuple, SupportsIndex

from bertscope.errors import invalid_argument
from bertscope.rpc.pacing import text_work
from bertscope.rpc.sections import TOKEN_BYTES
from bertscope.v1 import ablation_sites_pb2, site_pb2
from bertscope.values import validation
from bertscope.values.changes import SITES, Mean, Scaling, SiteChange
from bertscope.values.display import record
from bertscope.values.interventions import Interventions
from bertscope.values.messages import Numbers, text_input
from bertscope.values.models import Model
from bertscope.values.positions import Place, checked_spans, spans_message
from bertscope.values.requests import request_of
from bertscope.values.score_targets import ScoreTarget, target_message
from bertscope.values.validation import TextOrPair

__all__ = ["MaskedWords", "NoisyWords"]

Request = ablation_sites_pb2.SweepSitesRequest
UNITS = ablation_sites_pb2.SiteScope
Pair = ablation_sites_pb2.PatchedPair
Spans = Place | Iterable[Place]
"""A part of a text as a tuple (start, end) or (start, end, segment), or several; code points."""
Groups = Mapping[str, Spans]
"""Named words of a text: {"subject": (4, 8)}."""

USUAL_LAYERS = 12
"""The layers of a model, for estimates of work."""


@record
class NoisyWords:
    """Corrupts the clean text by normal noise on the embeddings of some words (Meng et al. 2022, section 2.1).

    >>> NoisyWords((4, 8)).spans
    (Span(start=4, end=8, segment=0),)
    """

    spans: Spans
    """The words: (start, end), code points of the clean text, or a list of such."""
    deviation: float | None = None
    """The standard deviation, in those of all numbers of the text's embeddings, over 0 to 100; None means 3."""
    samples: SupportsIndex | None = None
    """Draws of noise, 1 to 100, over which effects are means; None means 10."""
    seed: SupportsIndex = 0
    """Chooses the noise."""

    def __post_init__(self) -> None:
        deviation, samples = self.deviation, self.samples
        validation.keep(
            self,
            spans=checked_spans("spans", self.spans),
            deviation=None if deviation is None else validation.finite_number("deviation", deviation),
            samples=None if samples is None else validation.positive("samples", samples),
            seed=validation.uint64("seed", self.seed),
        )


@record
class MaskedWords:
    """Corrupts the clean text: each piece that begins in some words becomes the mask token.

    >>> MaskedWords([(4, 8), (17, 24)]).spans[1]
    Span(start=17, end=24, segment=0)
    """

    spans: Spans
    """The words: (start, end), code points of the clean text, or a list of such."""

    def __post_init__(self) -> None:
        validation.keep(self, spans=checked_spans("spans", self.spans))


Corruption = TextOrPair | NoisyWords | MaskedWords
"""Another text of as many tokens, noise, or masks."""


class AskedPair(NamedTuple):
    """A pair that is sent."""

    message: Pair
    target: ScoreTarget
    work: float
    """Its estimated work, for one scope: that of the text for each layer and position."""


def asked_pairs(
    clean: TextOrPair | Iterable[TextOrPair],
    corrupted: Corruption | Iterable[Corruption] | None,
    target: ScoreTarget | Iterable[ScoreTarget],
    groups: Groups | Iterable[Groups] | None,
) -> list[AskedPair]:
    """Returns the pairs of one text or many, which have the same target or one each. Raises InvalidArgument by the field."""
    texts = validation.texts_or_pairs("clean", clean)
    alone = isinstance(clean, str) or validation.is_pair(clean)
    one = isinstance(corrupted, (str, NoisyWords, MaskedWords)) or (alone and isinstance(corrupted, tuple))
    if one and not alone:
        raise invalid_argument("corrupted", "is of one text; give one for each clean text")
    others = _each("corrupted", [corrupted] if one else corrupted, len(texts))
    targets = repeat(target) if isinstance(target, (ScoreTarget, str)) else _each("target", target, len(texts))
    named = _each("groups", [groups] if isinstance(groups, Mapping) and alone else groups, len(texts))
    return [
        AskedPair(_pair(number, *given), given[2], _work(given[0]))
        for number, given in enumerate(zip(texts, others, targets, named, strict=False))
    ]


def _each(field: str, given: Any, count: int) -> Iterable[Any]:
    if given is None:
        return repeat(None)
    if isinstance(given, Mapping):
        raise invalid_argument(field, "are of one text; give a mapping {name: spans} for each clean text")
    found = [*validation.many(field, given, "one for each clean text")]
    if len(found) != count:
        raise invalid_argument(field, f"has {len(found)} for {count} clean texts; give one for each")
    return found


def _pair(number: int, clean: TextOrPair, corrupted: object, target: object, groups: object) -> Pair:
    found = Pair(clean=text_input(clean), target=target_message(f"target[{number}]", target))
    if isinstance(corrupted, NoisyWords):
        noise: Any = corrupted
        found.noise.MergeFrom(
            ablation_sites_pb2.EmbeddingNoise(
                spans=spans_message(noise.spans), deviation=noise.deviation, samples=noise.samples, seed=noise.seed
            )
        )
    elif isinstance(corrupted, MaskedWords):
        masked: Any = corrupted
        found.masked.MergeFrom(spans_message(masked.spans))
    elif corrupted is not None:
        found.corrupted.MergeFrom(text_input(validation.text_or_pair(f"corrupted[{number}]", corrupted)))
    if groups is not None:
        if not isinstance(groups, Mapping):
            raise invalid_argument(f"groups[{number}]", f"must be a mapping {{name: spans}}, not {type(groups).__name__}")
        for name, spans in groups.items():
            place = f"groups[{number}][{name!r}]"
            parts = spans_message(checked_spans(place, spans))
            found.groups.append(ablation_sites_pb2.PositionGroup(name=validation.text(place, name), spans=parts))
    return found


def _work(text: TextOrPair) -> float:
    size = sum(len(part.encode()) for part in ([text] if isinstance(text, str) else text))
    return text_work(text) * USUAL_LAYERS * max(1.0, size / TOKEN_BYTES)


def sweep_sites_request(
    *,
    model: str | Model | None,
    sites: str | Iterable[str] | None,
    layers: Numbers | None,
    units: Numbers | None,
    each_unit: bool,
    positions: str | None,
    direction: str | None,
    change: SiteChange | float | str | None,
    paths: bool,
    sender_layers: Numbers | None,
    receiver_layers: Numbers | None,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    memory_bytes: SupportsIndex | None,
) -> Request:
    """Returns the request, without its pairs."""
    ends = {"sender_layers": sender_layers, "receiver_layers": receiver_layers}
    if validation.flag("paths", paths):
        given = {"sites": sites, "layers": layers, "units": units, "positions": positions, "change": change}
        for name, value in (given | {"each_unit": each_unit or None}).items():
            if value is not None:
                raise invalid_argument(name, "must be left out with paths, which have sender_layers and receiver_layers")
    else:
        for name, value in ends.items():
            if value is not None:
                raise invalid_argument(name, "goes with paths=True; for sites, give layers")
    return request_of(
        Request,
        model=model,
        scopes=[] if paths else _scopes(sites, layers, units, each_unit=each_unit),
        paths=request_of(ablation_sites_pb2.PathScope, **ends) if paths else None,
        positions=positions,
        direction=direction,
        change=None if change is None else _change(change),
        interventions=interventions,
        reference_texts=reference_texts,
        memory_bytes=memory_bytes,
    )


def _scopes(
    sites: str | Iterable[str] | None, layers: Numbers | None, units: Numbers | None, *, each_unit: bool
) -> list[ablation_sites_pb2.SiteScope]:
    names = ["state"] if sites is None else validation.texts("sites", sites)
    each = UNITS.UNITS_EACH if validation.flag("each_unit", each_unit) else UNITS.UNITS_TOGETHER
    return [
        ablation_sites_pb2.SiteScope(
            site=validation.choice("sites", name, SITES),
            layers=validation.uint32s("layers", layers),
            each=each,
            units=validation.uint32s("units", units),
        )
        for name in validation.not_empty("sites", names)
    ]


def _change(change: SiteChange | float | str) -> site_pb2.SiteChange:
    if isinstance(change, SiteChange):
        return change.message()
    if change == "mean":
        return Mean().message()
    if isinstance(change, str):
        raise invalid_argument("change", f'must be a factor, "mean" or the change of a site change, not {change!r}')
    return Scaling(validation.finite_number("change", change)).message()
