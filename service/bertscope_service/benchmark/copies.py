"""Copies of loaded models that run in another form for the time of a comparison."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from bertscope_service.benchmark.building import Building, Check
from bertscope_service.benchmark.comparability import Form, Pairing, Subject, as_loaded, caveats, pair_alike
from bertscope_service.encoders.torch.quantization import QUANTIZED
from bertscope_service.errors import FailedPrecondition, ServiceError, Unsupported
from bertscope_service.models.loaded import LoadedModel, LoadSpec
from bertscope_service.models.registry import Report

BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2}
"""Bytes of a parameter, by number formats in which all parameters are; in others some are integers."""

Read = Callable[[LoadSpec, Report], LoadedModel]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """The requested form of models: as they are loaded, or all with one library, "" for the baseline's."""

    as_loaded: bool = False
    runtime: str = ""


@dataclass(frozen=True, slots=True)
class ComparedModel:
    """A model as it runs: itself or a copy. `compared` is the number of the model that it is compared with, its own for the
    baseline; `caveat` says what else differs between the two."""

    loaded: LoadedModel
    runs: LoadedModel
    compared: int
    caveat: str = ""

    @property
    def copied(self) -> bool:
        return self.runs is not self.loaded


@dataclass(frozen=True, slots=True)
class ComparedModels:
    """All that run: the models, in their order, then the baseline in other forms. `remarks` name models that run
    differently."""

    every: Sequence[ComparedModel]
    models: int
    remarks: Sequence[str] = ()


@dataclass
class Copies:
    """Makes the copies that a comparison needs; they live as long as the returned object.

    `read` reads a model, in a thread. `memory_bytes` is the maximum for the weights of all copies.
    """

    models: Sequence[LoadedModel]
    baseline: int
    asked: CopyRequest
    read: Read
    building: Building
    memory_bytes: int
    report: Callable[[str], None] = lambda _: None
    _fixed: dict[int, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._subjects = [Subject.of(model) for model in self.models]

    def check(self) -> None:
        """Raises Unsupported if the requested library can't run the baseline."""
        if not self.asked.runtime:
            return
        base, pairing = self._subjects[self.baseline], self._pairing()
        if pairing.forms[self.baseline].runtime != self.asked.runtime:
            can_not = f"{base.name} can't be run by {self.asked.runtime} in {base.form.precision}"
            message = f"{can_not}; leave runtime out, or set as_loaded"
            raise Unsupported(message, "RUNTIME_UNSUPPORTED", runtime=self.asked.runtime, model=base.name)

    def needed(self) -> bool:
        """Checks whether copies have to be made."""
        return bool(self._missing(self._pairing()))

    async def make(self) -> ComparedModels:
        """Makes the required copies. A model that can't be copied runs as it is loaded, and a remark says why."""
        made: dict[tuple[int, Form], LoadedModel] = {}
        while True:
            pairing = self._pairing()
            missing = self._missing(pairing)
            if self._leave_out(missing):
                continue
            todo = [place for place in missing if place not in made]
            if not todo:
                return self._compared_models(pairing, {place: made[place] for place in missing})
            index, form = todo[0]
            name = self._subjects[index].name
            self.report(f"copying {name} to {form.runtime}, {form.precision}")
            try:
                made[index, form] = await self.building.do(lambda check: self._copy(index, form, check))  # noqa: B023
            except ServiceError as error:
                logger.warning("%s can't be copied for a benchmark: %s", name, error.message)
                self._fixed[index] = error.message

    def _pairing(self) -> Pairing:
        if self.asked.as_loaded:
            return as_loaded(self._subjects, self.baseline)
        runtime = self.asked.runtime or self._subjects[self.baseline].form.runtime
        return pair_alike(self._subjects, self.baseline, runtime, self._fixed)

    def _missing(self, pairing: Pairing) -> list[tuple[int, Form]]:
        """Returns the models that don't run as they are loaded, by their numbers, with their forms."""
        forms = [*enumerate(pairing.forms), *((self.baseline, form) for form in pairing.references)]
        return [(index, form) for index, form in forms if form != self._subjects[index].form]

    def _leave_out(self, missing: Sequence[tuple[int, Form]]) -> bool:
        """Gives up the largest copy if all together take too much memory. Returns whether it did."""
        sizes = [self.models[index].encoder.shape.parameters * BYTES.get(form.precision, 2) for index, form in missing]
        if sum(sizes) <= self.memory_bytes:
            return False
        index, _ = missing[sizes.index(max(sizes))]
        took, limit = (f"{size / 1e9:.3g} GB" for size in (sum(sizes), self.memory_bytes))
        self._fixed[index] = f"copies would take {took} and the server makes up to {limit} (--benchmark-memory-bytes)"
        return True

    def _copy(self, index: int, form: Form, check: Check) -> LoadedModel:
        """Reads a model once more in another form, on the building thread. Raises ServiceError."""
        loaded = self.models[index]
        with loaded.source.named() if loaded.source is not None else nullcontext():
            copy = self.read(spec_of(loaded, form), lambda _: check())
        if copy.weights_digest != loaded.weights_digest:
            message = f"the weights of {loaded.name} have changed since it was loaded; load it again to have it copied"
            raise FailedPrecondition(message, "SOURCE_CHANGED", source=loaded.spec.source)
        return copy

    def _compared_models(self, pairing: Pairing, copies: Mapping[tuple[int, Form], LoadedModel]) -> ComparedModels:
        places = [*enumerate(pairing.forms), *((self.baseline, form) for form in pairing.references)]
        compared = [*pairing.compared, *range(len(pairing.forms), len(places))]
        compared_models = []
        for (index, form), other in zip(places, compared, strict=True):
            own = self._subjects[index].own_precision or self._subjects[self.baseline].own_precision
            caveat = caveats(form, places[other][1], own)
            compared_models.append(
                ComparedModel(self.models[index], copies.get((index, form), self.models[index]), other, caveat)
            )
        remarks = [f"{self._subjects[index].name} ran as it is loaded: {why}" for index, why in self._fixed.items()]
        return ComparedModels(compared_models, len(pairing.forms), remarks)


def spec_of(loaded: LoadedModel, form: Form) -> LoadSpec:
    """Returns the specification that reads a model in another form, from its folder or, without one, by making it again."""
    spec, source = loaded.spec, loaded.source
    if source is not None:
        folder = str(source.folder.absolute())
        spec = replace(spec, derivation=None, source=folder, revision="", confinement=source.confinement)
    # Weights of few bits choose their precision themselves.
    precision = "fp32" if form.precision in QUANTIZED else form.precision
    return replace(spec, runtime=form.runtime, precision=precision, device=form.device)
