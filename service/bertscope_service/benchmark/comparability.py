"""Pairs models for a comparison so that like is compared with like: by one library, in one number format."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from bertscope_service.compression.half import chosen_precision
from bertscope_service.encoders.base import FLOAT32
from bertscope_service.encoders.torch.quantization import QUANTIZED
from bertscope_service.models.loaded import LoadedModel


@dataclass(frozen=True, slots=True)
class Form:
    """The library, number format and device of a model."""

    runtime: str
    precision: str
    device: str


@dataclass(frozen=True, slots=True)
class Subject:
    """The properties of a model that limit its forms.

    form: the form in which it is loaded. own_precision: its number format is part of its compression. checkpoint: its
    checkpoint can be read again. exportable: that checkpoint can be exported.
    """

    name: str
    form: Form
    own_precision: bool
    checkpoint: bool
    exportable: bool

    @classmethod
    def of(cls, model: LoadedModel) -> Subject:
        encoder, steps = model.encoder, model.steps
        form = Form(encoder.runtime, encoder.precision, str(encoder.device))
        halved = chosen_precision(steps)
        own = form.precision in QUANTIZED or (halved != "fp32" and halved == form.precision)
        exportable = model.checkpoint and not own and not encoder.capabilities.drops_tokens
        return cls(model.name, form, own, model.checkpoint, exportable)

    def as_(self, runtime: str, precision: str) -> Form | None:
        """Returns its form for a library, in a number format unless it has its own; None if it can't run so."""
        form = replace(self.form, runtime=runtime, precision=self.form.precision if self.own_precision else precision)
        if form == self.form:
            return form
        if runtime == "onnx":
            return form if self.exportable and form.precision in FLOAT32 else None
        return form if self.checkpoint else None


@dataclass(frozen=True, slots=True)
class Pairing:
    """The forms of the models, further forms of the baseline, and the number of the form that each model is compared with.

    The numbers count `forms` and then `references`; the baseline is compared with itself.
    """

    forms: Sequence[Form]
    references: Sequence[Form]
    compared: Sequence[int]


def as_loaded(models: Sequence[Subject], baseline: int) -> Pairing:
    """Runs every model as it is loaded."""
    return Pairing([model.form for model in models], [], [baseline] * len(models))


def pair_alike(models: Sequence[Subject], baseline: int, runtime: str, fixed: Collection[int] = ()) -> Pairing:
    """Runs all models with one library, in the baseline's number format.

    `runtime` must be one that can run the baseline; models that are `fixed`, by their numbers, can only run as they are
    loaded. A model that can't run so runs as it is loaded, beside the baseline in the same form; if the baseline can't run in
    that form, the model is compared with the baseline all the same.
    """
    base = models[baseline]

    def find(index: int, library: str, precision: str) -> Form | None:
        found = models[index].as_(library, precision)
        return found if index not in fixed or found == models[index].form else None

    wanted = _precision(base, runtime)
    own = find(baseline, runtime, wanted) or base.form
    forms: list[Form] = []
    references: list[Form] = []
    compared: list[int] = []
    for index, model in enumerate(models):
        if index == baseline:
            forms.append(own)
            compared.append(baseline)
            continue
        # If the baseline's number format is part of its compression, other models keep theirs.
        form = find(index, own.runtime, model.form.precision if base.own_precision else own.precision) or model.form
        forms.append(form)
        reference = None if form.runtime == own.runtime else find(baseline, form.runtime, _precision(base, form.runtime))
        if reference is None or reference == own:
            compared.append(baseline)
            continue
        if reference not in references:
            references.append(reference)
        compared.append(len(models) + references.index(reference))
    return Pairing(forms, references, compared)


def _precision(base: Subject, runtime: str) -> str:
    """Returns the number format in which a library can run the baseline."""
    as_it_is = runtime != "onnx" or base.own_precision or base.form.precision in FLOAT32
    return base.form.precision if as_it_is else "fp32"


def caveats(form: Form, other: Form, own_precision: bool) -> str:
    """Names the differences between two models' forms; "" if there are none.

    `own_precision` says that the number format of one of them is part of it.
    """
    differs = {
        "other runtime": form.runtime != other.runtime,
        "other precision": form.precision != other.precision and not own_precision,
        "other device": form.device != other.device,
    }
    return ", ".join(what for what, does in differs.items() if does)
