"""What the Open Inference Protocol says about a model: the tensors that it takes and gives."""

from __future__ import annotations

from bertscope.inference import open_inference_pb2 as oip

from bertscope_service.analyses.tensors import TensorKind
from bertscope_service.loaded import LoadedModel
from bertscope_service.messages.inference import IDS, MASK, SEGMENTS, TEXT, VERSION, kinds_of

PLATFORMS = {"onnx": "onnx_onnxv1", "torch": "pytorch_torch"}
TYPES = {"INT64": oip.TYPE_INT64, "FP32": oip.TYPE_FP32, "BYTES": oip.TYPE_STRING}


def taken_by(model: LoadedModel) -> list[TensorKind]:
    """Every tensor that a model takes."""
    ids = [IDS, MASK] + [SEGMENTS] * (model.encoder.shape.segments > 1)
    return [*(TensorKind(name, "INT64", (-1,)) for name in ids), TensorKind(TEXT, "BYTES", (1,))]


def render_metadata(name: str, model: LoadedModel) -> oip.ModelMetadataResponse:
    """`name` as it was asked for."""

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
    """The same as Triton would be told it."""
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
