"""Changes at sites in a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from bertscope.v1 import common_pb2, site_pb2
from numpy.typing import NDArray

from bertscope_service import cancellation
from bertscope_service.analyses.interventions import Interventions
from bertscope_service.analyses.positions import PositionKind, Spans, Where
from bertscope_service.analyses.site_changes import PlannedChange, SourceRun, codes_change
from bertscope_service.analyses.texts import read_inputs
from bertscope_service.analyses.words import Span
from bertscope_service.api.change_limits import Messages, check_vectors
from bertscope_service.api.checks import check_number, check_numbers, check_text, read_text
from bertscope_service.api.enums import members
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.requirements import require_observable
from bertscope_service.api.tensors import Expected, parse_tensor
from bertscope_service.encoders.base import ChangesSites
from bertscope_service.encoders.sites import Change, Codes, Site
from bertscope_service.errors import InvalidArgument, Unsupported
from bertscope_service.models.loaded import LoadedModel

SITES = members(Site, site_pb2.Site, "SITE_")
KINDS = members(PositionKind, site_pb2.Positions.Kind, "KIND_")

MAX_RANK = 256

WITH_UNITS = (Site.HEAD_OUTPUT, Site.ACTIVATIONS, Site.ATTENTION)

VECTOR = Expected("VECTOR_SIZE", "VECTOR_NOT_FINITE", "this site", "send as many numbers", "send finite numbers")


@dataclass(frozen=True, slots=True)
class SiteReader:
    """Reads changes for one model. `models` are the hosted models that sources name."""

    model: LoadedModel
    limits: RequestLimits
    models: Mapping[str, LoadedModel]
    _known: dict[bytes, PositionKind | Spans | NDArray[np.int64]] = field(default_factory=dict)
    """Positions that were read, by their messages: equal ones are read, and found in a text, once."""

    def read(self, messages: Messages, field: str = "site_interventions") -> list[PlannedChange]:
        """Converts a request's changes. Raises InvalidArgument, and Unsupported for what the model can't change."""
        require_observable(self.model, asked=bool(messages))
        check_vectors(messages, field)
        return [self._read_one(message, f"{field}[{index}]") for index, message in enumerate(messages)]

    def _read_one(self, message: site_pb2.SiteIntervention, field: str) -> PlannedChange:
        cancellation.check()
        site = SITES[message.site]
        self.check(site, message.layer, f"{field}.layer")
        units = self.units(site, message.units, f"{field}.units")
        return self.change(message.change, site, message.layer, units, message, field)

    def check(self, site: Site, layer: int, field: str) -> None:
        """Raises InvalidArgument for a layer that is not there, and Unsupported for one whose site can't be changed."""
        self._check_layer(site, layer, field, self.model)
        if why := self.encoder(field).site_refusal(site, min(layer, self.model.encoder.shape.layers - 1)):
            raise Unsupported(f"{self.model.name} can't change its {site.value}: {why}", "SITE_UNSUPPORTED")

    def change(
        self,
        message: site_pb2.SiteChange,
        site: Site,
        layer: int,
        units: NDArray[np.int64] | None,
        at: site_pb2.SiteIntervention,
        field: str,
    ) -> PlannedChange:
        """Converts a change of some units of a site, at the positions of `at`. `field` is the path of what holds the change, ""
        for the request."""
        kind, path = message.WhichOneof("change"), f"{field}.change".lstrip(".")
        where = self.where(at.positions, field) if at.HasField("positions") else None
        if kind is None:
            raise InvalidArgument(path, f"{path} is empty; set one of its fields", "CHANGE_MISSING")
        if (kind == "block") != (site is Site.ATTENTION):
            told = "attention can only be blocked" if site is Site.ATTENTION else "only SITE_ATTENTION can be blocked"
            raise InvalidArgument(path, f"{path} is {kind}, and {told}", "CHANGE_UNUSABLE")
        if kind == "block":
            keys = self.where(message.block, f"{path}.block", key=True)
            return PlannedChange(Change(site, layer, where, units, keys=keys), 1)
        each, whole = self.sizes(site, field)
        size = whole if units is None else each * len(units)
        plain = Change(site, layer, where, units)
        if kind == "scale":
            return PlannedChange(Change(site, layer, where, units, keep=message.scale), each)
        if kind == "mean":
            return PlannedChange(plain, each, mean=True)
        if kind == "erase":
            return PlannedChange(self._projection(message.erase, plain, whole, f"{path}.erase"), each)
        if kind == "codes":
            return PlannedChange(self._codes(message.codes, plain, whole, f"{path}.codes"), each)
        if kind == "source":
            return self._source(message.source, plain, each, at, field)
        added = kind == "add"
        tensor, name = (message.add.vector, "add.vector") if added else (message.set, "set")
        vectors = _vectors(tensor, f"{path}.{name}", size)
        if vectors.ndim == 2:
            where = self.where(at.positions, field, count=len(vectors))
        change = Change(site, layer, where, units, 1.0 if added else 0.0, vectors)
        if not added or not message.add.HasField("strength"):
            return PlannedChange(change, each)
        if vectors.ndim == 2 or not vectors.any():
            message_ = f"{path}.add.vector is a direction with a strength; give one vector, [{size}], that is not 0"
            raise InvalidArgument(f"{path}.add.vector", message_, "VECTOR_NOT_FINITE")
        return PlannedChange(change, each, strength=message.add.strength)

    def encoder(self, field: str) -> ChangesSites:
        """Returns the model's encoder, which must change sites."""
        encoder = self.model.encoder
        if not isinstance(encoder, ChangesSites):
            raise Unsupported(f"{self.model.name} can't change its sites ({field}); load another model", "SITE_UNSUPPORTED")
        return encoder

    def sizes(self, site: Site, field: str) -> tuple[int, int]:
        """Returns the numbers of a unit of a site, and of its whole vector."""
        encoder, shape = self.encoder(field), self.model.encoder.shape
        if site is Site.HEAD_OUTPUT:
            return encoder.head_size, encoder.head_size * shape.heads
        size = encoder.site_size(site)
        if size is None:
            raise Unsupported(
                f"{self.model.name} does not show its {site.value}; load it with runtime torch", "SITE_UNSUPPORTED"
            )
        return (1 if site is Site.ACTIVATIONS else size), size

    def units(self, site: Site, numbers: Sequence[int], field: str) -> NDArray[np.int64] | None:
        """Returns the units that are named, None for all."""
        if not numbers:
            return None
        if site not in WITH_UNITS:
            message = f"{field} are for heads and activations, and the {site.value} has no parts; leave them out"
            raise InvalidArgument(field, message, "CHANGE_UNUSABLE")
        heads = site is not Site.ACTIVATIONS
        count = self.model.encoder.shape.heads if heads else self.sizes(site, field)[1]
        check_numbers(numbers, field, "head" if heads else "activation", count, self.model.name)
        return np.array(numbers, dtype=np.int64)

    def where(self, positions: site_pb2.Positions, field: str, *, count: int | None = None, key: bool = False) -> Where:
        """Returns the positions of a change, all if they are unset; `count` of them, if that is given."""
        known = positions.SerializeToString(deterministic=True)
        which = self._known.get(known)
        if which is None:
            which = self._known[known] = _which(positions, field if key else f"{field}.positions")
        return Where(which, self.model.tokenizer, field, count)

    def _projection(self, message: site_pb2.Projection, plain: Change, size: int, field: str) -> Change:
        if plain.units is not None:
            raise InvalidArgument(field, f"{field} is for whole vectors; leave units out", "CHANGE_UNUSABLE")
        rank = message.left.shape[1] if len(message.left.shape) == 2 else 0
        if not 1 <= rank <= MAX_RANK:
            told = f"{field}.left has shape {list(message.left.shape[:3])} and must have [{size}, rank], rank 1 to {MAX_RANK}"
            raise InvalidArgument(f"{field}.left", f"{told}; send such a matrix", "VECTOR_SIZE")
        left = parse_tensor(message.left, f"{field}.left", (size, rank), VECTOR)
        right = parse_tensor(message.right, f"{field}.right", (rank, size), VECTOR)
        add = None
        if message.HasField("mean"):
            mean = parse_tensor(message.mean, f"{field}.mean", (size,), VECTOR)
            add = (left.astype(np.float64) @ (right.astype(np.float64) @ mean)).astype(np.float32)
        return Change(plain.site, plain.layer, plain.positions, None, 1.0, add, left, right)

    @staticmethod
    def _codes(message: site_pb2.CodesChange, plain: Change, size: int, field: str) -> Change:
        if plain.site is not Site.STATE:
            raise InvalidArgument(field, f"{field} are of states; change them at SITE_STATE", "CHANGE_UNUSABLE")
        codes, mean = read_codes(message, size, field)
        return codes_change(plain.layer, plain.positions, codes, mean, factor=message.factor, replaced=message.replace)

    def _source(
        self, message: site_pb2.SiteSource, plain: Change, each: int, at: site_pb2.SiteIntervention, field: str
    ) -> PlannedChange:
        path = f"{field}.change.source"
        source = self.models[message.model] if message.model else self.model
        layer = message.layer if message.HasField("layer") else plain.layer
        reader = SiteReader(source, self.limits, {})
        self._check_layer(plain.site, layer, f"{path}.layer", source)
        if reader.sizes(plain.site, path) != self.sizes(plain.site, path):
            told = f"{path}.model is {source.name}, whose {plain.site.value} has another size than that of {self.model.name}"
            raise InvalidArgument(f"{path}.model", f"{told}; use a model that fits", "SOURCE_MISMATCH")
        inner = reader.read(message.interventions, f"{path}.interventions")
        if any(one.source or one.needs_references for one in inner):
            told = f"{path}.interventions have a source, a mean or a strength of their own; leave these out"
            raise InvalidArgument(f"{path}.interventions", told, "CHANGE_UNUSABLE")
        given = read_text(message.input)
        for name, written in zip(("text", "text_pair"), given, strict=True):
            if written is not None:
                check_text(written, f"{path}.input.{name}", self.limits)
        (text,) = read_inputs(source.tokenizer, [given], f"{path}.input", truncate=None)
        positions = message.positions if message.HasField("positions") else at.positions
        found = reader.where(positions, path)
        shape = source.encoder.shape
        edits = Interventions.none(shape.layers, shape.heads).at_sites(tuple(one.change for one in inner)).edits()
        if edits is not None:
            edits = edits.at(text.sequence)
        run = SourceRun(source.name, text.sequence, edits, (plain.site, layer), found)
        where = self.where(at.positions, field, count=len(run.chosen()))
        return PlannedChange(Change(plain.site, plain.layer, where, plain.units), each, run)

    @staticmethod
    def _check_layer(site: Site, layer: int, field: str, model: LoadedModel) -> None:
        check_number(layer, field, "layer", model.encoder.shape.layers + (site is Site.STATE), model.name)


def _which(positions: site_pb2.Positions, path: str) -> PositionKind | Spans | NDArray[np.int64]:
    """Reads positions. Raises InvalidArgument."""
    kind = positions.WhichOneof("which")
    if kind == "tokens":
        numbers = np.array(positions.tokens.tokens, dtype=np.int64)
        if (np.diff(numbers) <= 0).any():
            message = f"{path}.tokens are not in ascending order; sort them"
            raise InvalidArgument(f"{path}.tokens", message, "POSITION_OUT_OF_RANGE")
        return numbers
    if kind == "spans":
        return Spans(read_spans(positions.spans, f"{path}.spans.spans"))
    if kind is None and positions.ByteSize():
        raise InvalidArgument(path, f"{path} is empty; set one of its fields, or leave it out", "EMPTY_POSITIONS")
    return KINDS[positions.kind] if kind else PositionKind.ALL


def read_codes(message: site_pb2.CodesChange, size: int, field: str) -> tuple[Codes, NDArray[np.float32]]:
    """Returns sparse codes of states of so many numbers, and the mean that they are around. Raises InvalidArgument."""
    count = max(1, message.encoder.shape[0]) if message.encoder.shape else 1
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("encoder", "decoder"), (count, size))
    shapes |= {"biases": (count,), "thresholds": (count,), "mean": (size,)}
    arrays = {name: parse_tensor(getattr(message, name), f"{field}.{name}", shape, VECTOR) for name, shape in shapes.items()}
    if (arrays["thresholds"] < 0).any():
        told = f"{field}.thresholds has a number below 0, and codes are active above one; send at least 0"
        raise InvalidArgument(f"{field}.thresholds", told, "VECTOR_NOT_FINITE")
    return Codes.around(**arrays), arrays["mean"]


def read_spans(message: site_pb2.CharacterSpans, field: str) -> tuple[Span, ...]:
    """Returns parts of a text. Raises InvalidArgument for one without a character."""
    for index, span in enumerate(message.spans):
        if span.start >= span.end:
            path = f"{field}[{index}]"
            told = f"{path} goes from {span.start} to {span.end}, which is empty; end is one past the last code point"
            raise InvalidArgument(path, told, "EMPTY_SPAN")
    return tuple(Span(span.start, span.end, span.segment) for span in message.spans)


def source_models(messages: Messages) -> set[str]:
    """Returns the names of other models that changes take vectors from."""
    return {message.change.source.model for message in messages} - {""}


def _vectors(tensor: common_pb2.Tensor, field: str, size: int) -> NDArray[np.float32]:
    """Returns one vector, [size], or one for each position, [positions, size]."""
    shape = (tensor.shape[0], size) if len(tensor.shape) == 2 else (size,)
    return parse_tensor(tensor, field, shape, VECTOR)
