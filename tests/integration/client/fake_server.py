"""A server that keeps the contract, or breaks it where a test says so."""

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import numpy as np
from bertscope.v1 import attention_pb2, cloze_pb2, common_pb2, model_pb2
from bertscope.v1.attention_pb2_grpc import AttentionServiceServicer, add_AttentionServiceServicer_to_server
from bertscope.v1.cloze_pb2_grpc import ClozeServiceServicer, add_ClozeServiceServicer_to_server
from bertscope.v1.model_pb2_grpc import ModelServiceServicer, add_ModelServiceServicer_to_server
from grpc_health.v1 import health, health_pb2_grpc

LAYERS, HEADS, CHUNK_BYTES = 3, 4, 1000
PROVENANCE = common_pb2.Provenance(
    model="models/fake",
    weights_digest="sha256:" + "0" * 64,
    runtime=common_pb2.RUNTIME_TORCH,
    device="cpu",
    precision=common_pb2.PRECISION_FLOAT32,
    library_versions={"torch": "2.15.0"},
    numbering=common_pb2.NUMBERING_ZERO_BASED,
)


def model(name: str) -> model_pb2.Model:
    return model_pb2.Model(
        name=name,
        source="fake",
        architecture="bert",
        runtime=common_pb2.RUNTIME_TORCH,
        device="cpu",
        precision=common_pb2.PRECISION_FLOAT32,
        layers=LAYERS,
        heads=HEADS,
        hidden_size=64,
        vocabulary_size=100,
        max_tokens=512,
        parameters=123456,
        weight_bytes=493824,
        capabilities=[model_pb2.CAPABILITY_ATTENTION, model_pb2.CAPABILITY_CLOZE],
        state=model_pb2.Model.STATE_READY,
        mask_token="[MASK]",
    )


def attention_of(text: str, layers: list[int], heads: list[int], dtype: str = "<f4") -> np.ndarray:
    """What the fake server attends to: rows that sum to 1 and differ from one text, layer and head to the next."""
    length = len(text.split()) + 2
    weights = np.random.default_rng(len(text)).random((LAYERS, HEADS, length, length))
    return (weights / weights.sum(-1, keepdims=True))[np.ix_(layers, heads)].astype(dtype)


class FakeServer(ModelServiceServicer, ClozeServiceServicer, AttentionServiceServicer):
    """Answers like a server. `fail` is called first in every method; `stream` filters what ExtractAttention sends."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.names = ["models/fake"]
        self.page_size = 50
        self.fail: Callable[[grpc.ServicerContext], None] = lambda context: None
        self.stream: Callable[[Iterator[Any]], Iterator[Any]] = lambda messages: messages
        self.ended = threading.Event()
        self.health = health.HealthServicer()
        self.target = ""

    def _begin(self, request: Any, context: grpc.ServicerContext) -> None:
        self.requests.append(request)
        self.fail(context)

    def ListModels(self, request, context):
        self._begin(request, context)
        first = int(request.page_token or 0)
        last = first + self.page_size
        token = str(last) if last < len(self.names) else ""
        return model_pb2.ListModelsResponse(models=map(model, self.names[first:last]), next_page_token=token)

    def GetModel(self, request, context):
        self._begin(request, context)
        return model_pb2.GetModelResponse(model=model(request.name or self.names[0]))

    def LoadModel(self, request, context):
        context.add_callback(self.ended.set)
        self._begin(request, context)
        stages = model_pb2.LoadProgress.Stage
        for done in (0, 50, 100):
            progress = model_pb2.LoadProgress(stage=stages.STAGE_READING, done_bytes=done, total_bytes=100, detail="weights")
            yield model_pb2.LoadModelResponse(progress=progress)
        yield model_pb2.LoadModelResponse(model=model(f"models/{request.model_id or request.source.split('/')[-1]}"))

    def UnloadModel(self, request, context):
        self._begin(request, context)
        return model_pb2.UnloadModelResponse()

    def FillMask(self, request, context):
        self._begin(request, context)
        predictions = [
            cloze_pb2.Prediction(token=word, pieces=[word], piece_ids=[index], probability=p, log_probability=np.log(p))
            for index, (word, p) in enumerate([("france", 0.5), ("italy", 0.25), ("spain", 0.125)])
        ]
        if request.candidates:
            predictions = [
                cloze_pb2.Prediction(token=word, probability=0.1, log_probability=-2.3, candidate_probability=0.5)
                for word in request.candidates
            ]
        else:
            predictions = predictions[: request.top_k if request.HasField("top_k") else 5]
            for rank, prediction in enumerate(predictions, start=1):
                prediction.rank = rank
        results = [
            cloze_pb2.FilledText(
                masks=[
                    cloze_pb2.FilledMask(
                        token_index=3, start=text.index("[MASK]"), end=text.index("[MASK]") + 6, predictions=predictions
                    )
                ],
                tokens=7,
            )
            for text in request.texts
        ]
        return cloze_pb2.FillMaskResponse(results=results, provenance=PROVENANCE)

    def ExtractAttention(self, request, context):
        context.add_callback(self.ended.set)
        self._begin(request, context)
        yield from self.stream(self._attention(request))

    def _attention(self, request):
        layers, heads = list(request.layers) or list(range(LAYERS)), list(request.heads) or list(range(HEADS))
        dtype = "<f2" if request.dtype == common_pb2.DATA_TYPE_FLOAT16 else "<f4"
        for index, asked in enumerate(request.inputs):
            attention = attention_of(asked.text, layers, heads, dtype)
            tokens = [common_pb2.Token(text=word, id=7) for word in asked.text.split()]
            special = [common_pb2.Token(text=text, special=True) for text in ("[CLS]", "[SEP]")]
            header = attention_pb2.AttentionHeader(
                input_index=index,
                tokens=[special[0], *tokens, special[1]],
                layers=layers,
                heads=heads,
                attention=common_pb2.Tensor(dtype=request.dtype, shape=attention.shape),
                provenance=PROVENANCE,
            )
            yield attention_pb2.ExtractAttentionResponse(header=header)
            data = attention.tobytes()
            for offset in range(0, len(data), CHUNK_BYTES):
                chunk = attention_pb2.AttentionChunk(input_index=index, offset=offset, data=data[offset : offset + CHUNK_BYTES])
                yield attention_pb2.ExtractAttentionResponse(chunk=chunk)


def start(fake: FakeServer) -> grpc.Server:
    """Serves on a free port."""
    host = grpc.server(futures.ThreadPoolExecutor(8))
    add_ModelServiceServicer_to_server(fake, host)
    add_ClozeServiceServicer_to_server(fake, host)
    add_AttentionServiceServicer_to_server(fake, host)
    health_pb2_grpc.add_HealthServicer_to_server(fake.health, host)
    fake.target = f"127.0.0.1:{host.add_insecure_port('127.0.0.1:0')}"
    host.start()
    return host
