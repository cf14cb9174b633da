"""Provenance of an answer, and the names of libraries and number formats in the contract."""

from __future__ import annotations

from contextvars import ContextVar
from weakref import WeakKeyDictionary

from bertscope.v1 import common_pb2

from bertscope_service.models.loaded import LoadedModel

PRECISIONS = {
    "fp32": common_pb2.PRECISION_FLOAT32,
    "tf32": common_pb2.PRECISION_TENSORFLOAT32,
    "bf16": common_pb2.PRECISION_BFLOAT16,
    "fp16": common_pb2.PRECISION_FLOAT16,
    "int8": common_pb2.PRECISION_INT8,
    "weight_only": common_pb2.PRECISION_WEIGHT_ONLY,
}
ASKABLE_PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
"""Precisions that any model can be loaded in; weights of few bits choose their own."""
RUNTIMES = {"torch": common_pb2.RUNTIME_TORCH, "onnx": common_pb2.RUNTIME_ONNX}

site_norms: ContextVar[tuple[float, ...]] = ContextVar("site_norms", default=())
"""The norms that strengths of a request's site_interventions multiply; of one call."""

_PROVENANCES: WeakKeyDictionary[LoadedModel, common_pb2.Provenance] = WeakKeyDictionary()


def parse_runtime(runtime: int, usual: str) -> str:
    """Returns "torch", "onnx" or "auto"; `usual` if a request leaves it open. Raises InvalidArgument."""
    runtimes: dict[int, str] = {message: name for name, message in RUNTIMES.items()}
    runtimes |= {common_pb2.RUNTIME_AUTO: "auto", common_pb2.RUNTIME_UNSPECIFIED: usual}
    return runtimes[runtime]


def render_provenance(model: LoadedModel) -> common_pb2.Provenance:
    """Returns the provenance of an answer; rendered once for each model. The caller must not change it."""
    found = _PROVENANCES.get(model)
    if found is None:
        found = _PROVENANCES[model] = _render_provenance(model)
    if norms := site_norms.get():
        own = common_pb2.Provenance(site_norms=norms)
        own.MergeFrom(found)
        return own
    return found


def _render_provenance(model: LoadedModel) -> common_pb2.Provenance:
    return common_pb2.Provenance(
        model=model.name,
        weights_digest=model.weights_digest,
        runtime=RUNTIMES[model.encoder.runtime],
        device=str(model.encoder.device),
        precision=PRECISIONS[model.encoder.precision],
        library_versions=model.library_versions,
        numbering=common_pb2.NUMBERING_ZERO_BASED,
    )
