"""Metadata of a model in the Open Inference Protocol: the tensors that it takes and gives."""

from __future__ import annotations

from bertscope.inference import open_inference_pb2 as oip

from bertscope_service.analyses.tensors import TensorKind
from bertscope_service.api.inference_requests import IDS, MASK, SEGMENTS, TEXT, VERSION, kinds_of
from bertscope_service.models.loaded import LoadedModel

PLATFORMS = {"onnx": "onnx_onnxv1", "torch": "pytorch_torch"}
TYPES = {"INT64": oip.TYPE_INT64, "FP32": oip.TYPE_FP32, "BYTES": oip.TYPE_STRING}


def taken_by(model: LoadedModel) -> list[TensorKind]:
    """Returns every tensor that a model takes."""
    ids = [IDS, MASK] + [SEGMENTS] * (model.encoder.shape.segments > 1)
    return [*(TensorKind(name, "INT64", (-1,)) for name in ids), TensorKind(TEXT, "BYTES", (1,))]


def render_metadata(name: str, model: LoadedModel) -> oip.ModelMetadataResponse:
    """Renders a model's metadata; `name` is the requested one."""

    def render(kind: TensorKind) -> oip.ModelMetadataResponse.TensorMetadata:
        return oip.ModelMetadataResponse.TensorMetadata(name=kind.name, datatype=kind.datatype, shape=(-1, *kind.dims))

    return oip.ModelMetadataResponse(
        name=name,
        versions=[VERSION],
        platform=PLATFORMS[model.encoder.runtime],
        inputs=[render(kind) for kind in taken_by(model)],
        outputs=[render(kind) for kind in kinds_of(model).values()],
    )


def render_config(name: str, model: LoadedModel, max_texts: int) -> oip.ModelConfigResponse:
    """Renders the same as Triton's model configuration."""
    inputs = taken_by(model)
    outputs = kinds_of(model).values()
    config = oip.ModelConfig(
        name=name,
        platform=PLATFORMS[model.encoder.runtime],
        max_batch_size=max_texts,
        input=[
            oip.ModelInput(name=kind.name, data_type=TYPES[kind.datatype], dims=kind.dims, optional=True) for kind in inputs
        ],
        output=[oip.ModelOutput(name=kind.name, data_type=TYPES[kind.datatype], dims=kind.dims) for kind in outputs],
    )
    return oip.ModelConfigResponse(config=config)
