"""Builds requests from what a caller wrote. Pure: no channel, no clock; both clients use these functions.

Every function raises InvalidArgument, naming the field, for what cannot be encoded.
"""

from collections.abc import Iterable
from typing import SupportsIndex

from bertscope import _encoding
from bertscope._encoding import TextOrPair
from bertscope.errors import invalid_argument
from bertscope.interventions import HeadIntervention
from bertscope.results import Model
from bertscope.v1 import attention_pb2, classification_pb2, cloze_pb2, common_pb2, model_pb2

Inputs = TextOrPair | Iterable[TextOrPair]
"""One text, one pair, or many of either. A tuple of strings is one pair, a list of strings is many texts."""
Interventions = HeadIntervention | Iterable[HeadIntervention]
"""One head intervention, or many."""
Numbers = SupportsIndex | Iterable[SupportsIndex]
"""One layer or head, or many."""

DATA_TYPES = {"float32": common_pb2.DATA_TYPE_FLOAT32, "float16": common_pb2.DATA_TYPE_FLOAT16}
PRECISIONS = {
    "fp32": common_pb2.PRECISION_FLOAT32,
    "bf16": common_pb2.PRECISION_BFLOAT16,
    "fp16": common_pb2.PRECISION_FLOAT16,
}
RUNTIMES = {
    "auto": common_pb2.RUNTIME_AUTO,
    "torch": common_pb2.RUNTIME_TORCH,
    "onnx": common_pb2.RUNTIME_ONNX,
}
MODES = {
    "zero": common_pb2.HeadIntervention.MODE_ZERO,
    "uniform": common_pb2.HeadIntervention.MODE_UNIFORM,
    "mean": common_pb2.HeadIntervention.MODE_MEAN,
    "scale": common_pb2.HeadIntervention.MODE_SCALE,
}


def fill_mask(
    texts: str | Iterable[str],
    *,
    model: str | Model | None,
    top_k: SupportsIndex | None,
    candidates: str | Iterable[str] | None,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
) -> cloze_pb2.FillMaskRequest:
    """Request of FillMask."""
    words = None if candidates is None else _encoding.not_empty("candidates", _encoding.texts("candidates", candidates))
    return cloze_pb2.FillMaskRequest(
        model=model_name("model", model),
        texts=_encoding.texts("texts", texts),
        top_k=None if top_k is None else _encoding.uint32("top_k", top_k),
        candidates=words,
        interventions=head_interventions(interventions),
        reference_texts=_encoding.texts("reference_texts", reference_texts),
        truncate=_encoding.flag("truncate", truncate),
    )


def extract_attention(
    inputs: Inputs,
    *,
    model: str | Model | None,
    layers: Numbers | None,
    heads: Numbers | None,
    words: bool,
    dtype: str,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
) -> attention_pb2.ExtractAttentionRequest:
    """Request of ExtractAttention."""
    level = attention_pb2.ATTENTION_LEVEL_WORD if _encoding.flag("words", words) else None
    return attention_pb2.ExtractAttentionRequest(
        model=model_name("model", model),
        inputs=text_inputs(inputs),
        layers=_encoding.uint32s("layers", layers),
        heads=_encoding.uint32s("heads", heads),
        dtype=_encoding.choice("dtype", dtype, DATA_TYPES),
        level=level or attention_pb2.ATTENTION_LEVEL_PIECE,
        interventions=head_interventions(interventions),
        reference_texts=_encoding.texts("reference_texts", reference_texts),
        truncate=_encoding.flag("truncate", truncate),
    )


def classify(
    inputs: Inputs,
    *,
    model: str | Model | None,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
) -> classification_pb2.ClassifyRequest:
    """Request of Classify."""
    return classification_pb2.ClassifyRequest(
        model=model_name("model", model),
        inputs=text_inputs(inputs),
        interventions=head_interventions(interventions),
        reference_texts=_encoding.texts("reference_texts", reference_texts),
        truncate=_encoding.flag("truncate", truncate),
    )


def list_models(page_token: str = "") -> model_pb2.ListModelsRequest:
    """Request of ListModels; the first page unless the token of another is given."""
    return model_pb2.ListModelsRequest(page_token=page_token)


def get_model(model: str | Model | None) -> model_pb2.GetModelRequest:
    """Request of GetModel."""
    return model_pb2.GetModelRequest(name=model_name("name", model))


def load_model(
    model: str | None,
    *,
    source: str,
    device: str | None,
    precision: str | None,
    revision: str | None,
    runtime: str | None,
    replace: bool,
) -> model_pb2.LoadModelRequest:
    """Request of LoadModel."""
    number_format = None if precision is None else _encoding.choice("precision", precision, PRECISIONS)
    return model_pb2.LoadModelRequest(
        model_id=_encoding.text("model_id", model or "").removeprefix("models/"),
        source=_encoding.text("source", source),
        device=_encoding.text("device", device or ""),
        precision=number_format or common_pb2.PRECISION_UNSPECIFIED,
        revision=_encoding.text("revision", revision or ""),
        runtime=runtime_of(runtime),
        replace=_encoding.flag("replace", replace),
    )


def runtime_of(runtime: str | None) -> common_pb2.Runtime.ValueType:
    """The library to run a model with; None is the server's setting."""
    chosen = None if runtime is None else _encoding.choice("runtime", runtime, RUNTIMES)
    return chosen or common_pb2.RUNTIME_UNSPECIFIED


def unload_model(model: str | Model) -> model_pb2.UnloadModelRequest:
    """Request of UnloadModel; here None does not mean the default model."""
    if model is None:
        raise invalid_argument("name", "is required: say which model to unload")
    return model_pb2.UnloadModelRequest(name=model_name("name", model))


def model_name(field: str, model: str | Model | None) -> str:
    """The resource name: "models/x" and "x" are the same, None is the server's default model."""
    if model is None:
        return ""
    name = _encoding.text(field, model.name if isinstance(model, Model) else model)
    if not name:
        raise invalid_argument(field, "is empty; leave it out to mean the server's default model")
    return name if name.startswith("models/") else f"models/{name}"


def text_inputs(inputs: Inputs) -> list[common_pb2.TextInput]:
    """Texts and pairs of texts."""
    return list(map(text_input, _encoding.texts_or_pairs("inputs", inputs)))


def text_input(value: TextOrPair) -> common_pb2.TextInput:
    """A text or pair that was checked before."""
    text, text_pair = (value, None) if isinstance(value, str) else value
    return common_pb2.TextInput(text=text, text_pair=text_pair)


def head_interventions(interventions: Interventions) -> list[common_pb2.HeadIntervention]:
    """What heads contribute."""
    if isinstance(interventions, HeadIntervention):
        interventions = [interventions]
    return [
        _intervention(f"interventions[{index}]", value)
        for index, value in enumerate(_encoding.many("interventions", interventions, "head interventions"))
    ]


def _intervention(field: str, value: object) -> common_pb2.HeadIntervention:
    if not isinstance(value, HeadIntervention):
        raise invalid_argument(field, "must be made by bertscope.zero, uniform, mean or scale")
    return common_pb2.HeadIntervention(layer=value.layer, heads=value.heads, mode=MODES[value.mode], scale=value.factor)
