"""Changes at sites in a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from bertscope.v1 import site_pb2
from numpy.typing import NDArray

from bertscope_service import cancellation
from bertscope_service.analyses.interventions import Interventions
from bertscope_service.analyses.site_changes import PlannedChange, SourceRun
from bertscope_service.analyses.texts import read_inputs
from bertscope_service.api.change_limits import Messages, check_vectors
from bertscope_service.api.checks import check_text, read_text
from bertscope_service.api.enums import members
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.model_sites import ModelSites
from bertscope_service.api.requirements import require_observable
from bertscope_service.api.site_positions import PositionReader
from bertscope_service.api.site_vectors import read_codes_change, read_projection, read_vectors
from bertscope_service.encoders.sites import Change, Site
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel

SITES = members(Site, site_pb2.Site, "SITE_")


@dataclass(frozen=True, slots=True)
class SiteReader:
    """Reads changes for one model, at its sites and at positions in its texts. `models` are those that sources name."""

    model: LoadedModel
    limits: RequestLimits
    models: Mapping[str, LoadedModel]
    sites: ModelSites
    positions: PositionReader

    @classmethod
    def of(cls, model: LoadedModel, limits: RequestLimits, models: Mapping[str, LoadedModel]) -> SiteReader:
        """Returns the reader for a model."""
        return cls(model, limits, models, ModelSites(model), PositionReader(model.tokenizer))

    def read(self, messages: Messages, field: str = "site_interventions") -> list[PlannedChange]:
        """Converts a request's changes. Raises InvalidArgument, and Unsupported for what the model can't change."""
        require_observable(self.model, asked=bool(messages))
        check_vectors(messages, field)
        return [self._read_one(message, f"{field}[{index}]") for index, message in enumerate(messages)]

    def _read_one(self, message: site_pb2.SiteIntervention, field: str) -> PlannedChange:
        cancellation.check()
        site = SITES[message.site]
        self.sites.check(site, message.layer, f"{field}.layer")
        units = self.sites.units(site, message.units, f"{field}.units")
        return self.change(message.change, site, message.layer, units, message, field)

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
        where = self.positions.where(at.positions, field) if at.HasField("positions") else None
        if kind is None:
            raise InvalidArgument(path, f"{path} is empty; set one of its fields", "CHANGE_MISSING")
        if (kind == "block") != (site is Site.ATTENTION):
            told = "attention can only be blocked" if site is Site.ATTENTION else "only SITE_ATTENTION can be blocked"
            raise InvalidArgument(path, f"{path} is {kind}, and {told}", "CHANGE_UNUSABLE")
        if kind == "block":
            keys = self.positions.where(message.block, f"{path}.block", key=True)
            return PlannedChange(Change(site, layer, where, units, keys=keys), 1)
        each, whole = self.sites.sizes(site, field)
        size = whole if units is None else each * len(units)
        plain = Change(site, layer, where, units)
        if kind == "scale":
            return PlannedChange(Change(site, layer, where, units, keep=message.scale), each)
        if kind == "mean":
            return PlannedChange(plain, each, mean=True)
        if kind == "erase":
            return PlannedChange(read_projection(message.erase, plain, whole, f"{path}.erase"), each)
        if kind == "codes":
            return PlannedChange(read_codes_change(message.codes, plain, whole, f"{path}.codes"), each)
        if kind == "source":
            return self._source(message.source, plain, each, at, field)
        added = kind == "add"
        tensor, name = (message.add.vector, "add.vector") if added else (message.set, "set")
        vectors = read_vectors(tensor, f"{path}.{name}", size)
        if vectors.ndim == 2:
            where = self.positions.where(at.positions, field, count=len(vectors))
        change = Change(site, layer, where, units, 1.0 if added else 0.0, vectors)
        if not added or not message.add.HasField("strength"):
            return PlannedChange(change, each)
        if vectors.ndim == 2 or not vectors.any():
            message_ = f"{path}.add.vector is a direction with a strength; give one vector, [{size}], that is not 0"
            raise InvalidArgument(f"{path}.add.vector", message_, "VECTOR_NOT_FINITE")
        return PlannedChange(change, each, strength=message.add.strength)

    def _source(
        self, message: site_pb2.SiteSource, plain: Change, each: int, at: site_pb2.SiteIntervention, field: str
    ) -> PlannedChange:
        path = f"{field}.change.source"
        source = self.models[message.model] if message.model else self.model
        layer = message.layer if message.HasField("layer") else plain.layer
        reader = SiteReader.of(source, self.limits, {})
        reader.sites.check_layer(plain.site, layer, f"{path}.layer")
        if reader.sites.sizes(plain.site, path) != self.sites.sizes(plain.site, path):
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
        found = reader.positions.where(positions, path)
        shape = source.encoder.shape
        edits = Interventions.none(shape.layers, shape.heads).at_sites(tuple(one.change for one in inner)).edits()
        if edits is not None:
            edits = edits.at(text.sequence)
        run = SourceRun(source.name, text.sequence, edits, (plain.site, layer), found)
        where = self.positions.where(at.positions, field, count=len(run.chosen()))
        return PlannedChange(Change(plain.site, plain.layer, where, plain.units), each, run)


def source_models(messages: Messages) -> set[str]:
    """Returns the names of other models that changes take vectors from."""
    return {message.change.source.model for message in messages} - {""}
