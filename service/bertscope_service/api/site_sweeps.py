"""Requests and replies of AblationService.SweepSites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from bertscope.v1 import ablation_sites_pb2 as sites_pb2
from bertscope.v1 import common_pb2, site_pb2
from numpy.typing import NDArray

from bertscope_service import cancellation
from bertscope_service.ablation.site_effects import SiteEffect, SiteEvent, SiteStart
from bertscope_service.ablation.site_plan import (
    Direction,
    MaskedQuery,
    NoiseQuery,
    Pair,
    PairQuery,
    PositionScope,
    SitePlan,
    Units,
)
from bertscope_service.analyses.site_changes import PlannedChange
from bertscope_service.analyses.words import Span
from bertscope_service.api import field_checks
from bertscope_service.api.checks import check_numbers, read_memory_bytes, read_text
from bertscope_service.api.enums import members, numbers
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.path_sweeps import check_alone, read_paths
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_observable
from bertscope_service.api.sites import SITES, SiteReader
from bertscope_service.api.spans import check_span
from bertscope_service.api.targets import parse_target, target_reader
from bertscope_service.api.tokens import render_piece
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.encoders.paths import Receiver, Sender
from bertscope_service.encoders.sites import Change, Place, Site
from bertscope_service.errors import InvalidArgument, Unsupported
from bertscope_service.models.loaded import LoadedModel

Request = sites_pb2.SweepSitesRequest
Response = sites_pb2.SweepSitesResponse

POSITIONS: dict[int, PositionScope] = {
    sites_pb2.POSITION_SCOPE_UNSPECIFIED: PositionScope.EACH,
    **members(PositionScope, sites_pb2.PositionScope, "POSITION_SCOPE_"),
}
POSITION_NUMBERS = numbers(PositionScope, sites_pb2.PositionScope, "POSITION_SCOPE_")
DIRECTIONS: dict[int, Direction] = {
    sites_pb2.PATCH_DIRECTION_UNSPECIFIED: Direction.RESTORE,
    **members(Direction, sites_pb2.PatchDirection, "PATCH_DIRECTION_"),
}
DIRECTION_NUMBERS = numbers(Direction, sites_pb2.PatchDirection, "PATCH_DIRECTION_")
PART_NUMBERS = numbers(Receiver, sites_pb2.PathReceiver.Part, "PART_")
SITE_NUMBERS = numbers(Site, site_pb2.Site, "SITE_")


def needs_references(request: Request) -> bool:
    """Returns whether the change that is measured takes a mean or a norm over reference texts."""
    return request.change.HasField("mean") or request.change.add.HasField("strength")


def read_units(request: Request, reader: SiteReader) -> list[Units]:
    """Returns what changes at a time, in the order of the scopes. Raises InvalidArgument, and Unsupported for a model without a
    site."""
    if not request.scopes:
        raise InvalidArgument("scopes", "scopes is empty; name a site", "UNKNOWN_SITE")
    found: list[Units] = []
    seen: dict[tuple[Place, int | None], str] = {}
    for index, scope in enumerate(request.scopes):
        field = f"scopes[{index}]"
        for one in _read_scope(scope, field, request, reader):
            before = seen.setdefault((one.place, one.unit), field)
            if before != field:
                message = (
                    f"{field} and {before} change the same units of a layer, or both some of them together, and their effects "
                    "could not be told apart; ask for one in another call"
                )
                raise InvalidArgument(field, message, "DUPLICATE")
            found.append(one)
    return found


def _read_scope(scope: sites_pb2.SiteScope, field: str, request: Request, reader: SiteReader) -> Iterator[Units]:
    site, shape = SITES[scope.site], reader.model.encoder.shape
    for number, layer in enumerate(scope.layers):
        reader.sites.check(site, layer, f"{field}.layers[{number}]")
    layers = list(scope.layers or range(shape.layers))
    if scope.each == sites_pb2.SiteScope.UNITS_EACH and site is Site.STATE and request.change.HasField("codes"):
        for layer in layers:
            yield from _each_code(scope.units, f"{field}.units", request, reader, layer)
        return
    units = reader.sites.units(site, scope.units, f"{field}.units")
    for layer in layers:
        reader.sites.check(site, layer, f"{field}.layers")
        unit_size, size = reader.sites.sizes(site, field)
        if scope.each != sites_pb2.SiteScope.UNITS_EACH:
            yield Units(_read_change(request, reader, site, layer, units, unit_size), size)
            continue
        if site not in (Site.HEAD_OUTPUT, Site.ACTIVATIONS):
            message = f"{field}.each is for SITE_HEAD_OUTPUT, SITE_ACTIVATIONS and sparse codes; leave it out"
            raise InvalidArgument(f"{field}.each", message, "CHANGE_UNUSABLE")
        every = shape.heads_of(layer) if site is Site.HEAD_OUTPUT else range(size)
        for unit in every if units is None else units.tolist():
            cancellation.check()
            yield Units(_read_change(request, reader, site, layer, np.array([unit]), unit_size), size, unit)


def _each_code(numbers: Sequence[int], field: str, request: Request, reader: SiteReader, layer: int) -> Iterator[Units]:
    """Yields each code of the change alone; `numbers` of them, if there are any."""
    size = reader.model.encoder.shape.hidden_size
    planned = _read_change(request, reader, Site.STATE, layer, None, size)
    codes = planned.change.codes
    if codes is None:
        raise RuntimeError("a change of codes without any")
    for number in check_numbers(numbers, field, "code", len(codes.biases), reader.model.name):
        cancellation.check()
        yield Units(replace(planned, change=replace(planned.change, codes=codes.only(number))), size, number)


def _read_change(
    request: Request, reader: SiteReader, site: Site, layer: int, units: NDArray[np.int64] | None, unit_size: int
) -> PlannedChange:
    """Returns the change of some units at all tokens; without vectors if another run has them."""
    if not request.HasField("change"):
        return PlannedChange(Change(site, layer, None, units), unit_size)
    if (kind := request.change.WhichOneof("change")) in ("source", "block"):
        message = f"change is {kind}, which is for site_interventions; scale, set, add or erase, or take a mean"
        raise InvalidArgument("change", message, "CHANGE_UNUSABLE")
    planned = reader.change(request.change, site, layer, units, site_pb2.SiteIntervention(), "")
    if planned.change.add is not None and planned.change.add.ndim > 1:
        raise InvalidArgument("change", "change has a vector for each position; give one for all", "POSITIONS_MISMATCH")
    return planned


def plan_site_sweep(request: Request, model: LoadedModel, limits: RequestLimits, memory_bytes: int) -> SitePlan:
    """Plans a sweep. `memory_bytes`: the server's setting.

    Raises InvalidArgument, and Unsupported for a model without a site or without the head that a target needs.
    """
    require_observable(model)
    reader, paths = SiteReader.of(model, limits, {}), request.HasField("paths")
    if paths:
        check_alone(request)
    positions = PositionScope.TOGETHER if paths else POSITIONS[request.positions]
    if request.HasField("change") and request.direction:
        message = "direction is for vectors of another run, and change is set; leave one of the two out"
        raise InvalidArgument("direction", message, "CHANGE_UNUSABLE")
    pairs = [
        _read_pair(pair, f"pairs[{index}]", model, changed=request.HasField("change"))
        for index, pair in enumerate(request.pairs)
    ]
    if positions is PositionScope.GROUPS and not any(pair.groups for pair in pairs):
        message = "pairs[0].groups is empty, like those of all pairs; name groups, or set other positions"
        raise InvalidArgument("pairs[0].groups", message, "EMPTY_POSITIONS")
    return SitePlan(
        pairs,
        read_paths(request.paths, reader.sites) if paths else read_units(request, reader),
        positions,
        None if request.HasField("change") else DIRECTIONS[request.direction],
        read_memory_bytes(request, memory_bytes),
        model.tokenizer,
        target_reader(model),
    )


def _read_pair(given: sites_pb2.PatchedPair, field: str, model: LoadedModel, *, changed: bool) -> PairQuery:
    clean = read_text(given.clean)
    kind = given.WhichOneof("corruption")
    if changed and kind is not None:
        message = f"{field}.{kind} is for vectors of another run, and change is set; leave one of the two out"
        raise InvalidArgument(f"{field}.{kind}", message, "CHANGE_UNUSABLE")
    corruption: tuple[str, str | None] | NoiseQuery | MaskedQuery | None = None
    match kind:
        case "corrupted":
            corruption = read_text(given.corrupted)
        case "noise":
            noise = given.noise
            corruption = NoiseQuery(
                _read_spans(noise.spans, f"{field}.noise.spans", clean),
                noise.deviation if noise.HasField("deviation") else field_checks.EMBEDDING_NOISE_DEVIATION,
                noise.samples if noise.HasField("samples") else field_checks.EMBEDDING_NOISE_SAMPLES,
                noise.seed,
            )
        case "masked":
            if model.tokenizer.mask_id is None:
                message = f"{model.name} has no mask token; give a corrupted text, or noise"
                raise Unsupported(message, "NO_MASK_TOKEN", model=model.name)
            corruption = MaskedQuery(_read_spans(given.masked, f"{field}.masked", clean))
        case None if not changed:
            message = f"{field} has no corruption; set corrupted, noise or masked, or a change of the whole sweep"
            raise InvalidArgument(field, message, "CORRUPTION_MISSING")
    groups: dict[str, tuple[Span, ...]] = {}
    for index, group in enumerate(given.groups):
        place = f"{field}.groups[{index}]"
        if group.name in groups:
            raise InvalidArgument(f"{place}.name", f"{place}.name is listed for the second time; list each once", "DUPLICATE")
        groups[group.name] = _read_spans(group.spans, f"{place}.spans", clean)
    return PairQuery(clean, corruption, parse_target(given.target, f"{field}.target", clean, model), groups, field)


def _read_spans(given: site_pb2.CharacterSpans, field: str, texts: tuple[str, str | None]) -> tuple[Span, ...]:
    return tuple(check_span(span, f"{field}.spans[{index}]", texts) for index, span in enumerate(given.spans))


def render_site_event(event: SiteEvent, plan: SitePlan, model: LoadedModel) -> Response:
    """Renders one message of the stream."""
    match event:
        case SiteStart():
            return render_site_start(event, plan, model)
        case SiteEffect():
            return render_site_effect(event, plan)
    return Response(summary=sites_pb2.SiteSweepSummary(**asdict(event), provenance=render_provenance(model)))


def render_site_start(start: SiteStart, plan: SitePlan, model: LoadedModel) -> Response:
    names = model.encoder.shape.label_names
    return Response(
        start=sites_pb2.SiteSweepStart(
            total=start.total,
            pairs=[
                sites_pb2.PairValues(
                    tokens=_render_tokens(pair, pair.clean, model),
                    clean=values.clean,
                    corrupted=values.corrupted,
                    corrupted_tokens=[] if pair.corrupted is None else _render_tokens(pair, pair.corrupted, model),
                    label="" if values.label is None else names[values.label],
                )
                for pair, values in zip(plan.pairs, start.pairs, strict=True)
            ],
            positions=POSITION_NUMBERS[plan.positions],
            direction=sites_pb2.PATCH_DIRECTION_UNSPECIFIED if plan.direction is None else DIRECTION_NUMBERS[plan.direction],
            provenance=render_provenance(model),
        )
    )


def render_site_effect(effect: SiteEffect, plan: SitePlan) -> Response:
    units, (count, total, squares, ratios, ratio_sum, ratio_squares) = effect.units, effect.sums.tolist()
    named = plan.positions is PositionScope.GROUPS
    return Response(
        effect=sites_pb2.SiteEffect(
            **(_render_place(units) if units.sender is None else _render_path(units, units.sender)),
            position=None if named or plan.positions is PositionScope.TOGETHER else effect.group,
            group=plan.names[effect.group] if named else "",
            count=int(count),
            sum=total,
            sum_of_squares=squares,
            ratios=int(ratios),
            ratio_sum=ratio_sum,
            ratio_sum_of_squares=ratio_squares,
        )
    )


def _render_place(units: Units) -> dict[str, Any]:
    site, layer = units.place
    return {"site": SITE_NUMBERS[site], "layer": layer, "unit": units.unit}


def _render_path(units: Units, sender: Sender) -> dict[str, Any]:
    """Renders the sender of a path in place of a site, and its receiver."""
    site = Site.FEED_FORWARD_OUTPUT if sender.head is None else Site.HEAD_OUTPUT
    receiver = sites_pb2.PathReceiver(part=PART_NUMBERS[units.receiver], layer=units.place[1], head=units.unit)
    return {"site": SITE_NUMBERS[site], "layer": sender.layer, "unit": sender.head, "receiver": receiver}


def _render_tokens(pair: Pair, text: TokenizedText, model: LoadedModel) -> list[common_pb2.Token]:
    """Renders the tokens of a text of a pair, at their places in the text without the prompt of its target."""
    tokens = [render_piece(piece) for piece in text.pieces(model.tokenizer)]
    for token in tokens:
        if not token.segment:
            token.start, token.end = (max(0, end - pair.prompt) for end in (token.start, token.end))
    return tokens
