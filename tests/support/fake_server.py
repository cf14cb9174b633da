"""A server that keeps the contract, or breaks it where a test says so."""

import itertools
import re
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import numpy as np
from bertscope.v1 import (
    ablation_pb2,
    ablation_sites_pb2,
    attention_pb2,
    benchmark_pb2,
    classification_pb2,
    cloze_pb2,
    common_pb2,
    compression_pb2,
    model_pb2,
)
from bertscope.v1.ablation_pb2_grpc import AblationServiceServicer
from bertscope.v1.attention_pb2_grpc import AttentionServiceServicer
from bertscope.v1.benchmark_pb2_grpc import BenchmarkServiceServicer
from bertscope.v1.classification_pb2_grpc import ClassificationServiceServicer
from bertscope.v1.cloze_pb2_grpc import ClozeServiceServicer
from bertscope.v1.model_pb2_grpc import ModelServiceServicer
from bertscope.values.vectors import tensor
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_health.v1 import health, health_pb2_grpc
from grpc_status import rpc_status

from tests.support import descriptions, reports
from tests.support.patience import granted

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


def refuse(context: grpc.ServicerContext, code: int, message: str, reason: str, *details: Message, **metadata: str) -> None:
    """Ends a call as a server does: with a google.rpc.Status and a request id."""
    status = status_pb2.Status(code=code, message=message)
    for detail in (error_details_pb2.ErrorInfo(reason=reason, domain="bertscope", metadata=metadata), *details):
        status.details.add().Pack(detail)
    rich = rpc_status.to_status(status)
    context.set_trailing_metadata((*rich.trailing_metadata, ("x-request-id", "request-1")))
    context.abort(rich.code, rich.details)


def refuse_field(context: grpc.ServicerContext, field: str, why: str, reason: str, **metadata: str) -> None:
    """Ends a call for what a field has."""
    violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=f"{field} {why}")
    violations = error_details_pb2.BadRequest(field_violations=[violation])
    refuse(context, code_pb2.INVALID_ARGUMENT, f"{field} {why}", reason, violations, **metadata)


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


BASELINE = {ablation_pb2.METRIC_ACCURACY: 0.5, ablation_pb2.METRIC_LOSS: 2.0}
EVERY_HEAD = [{layer: [head]} for layer in range(LAYERS) for head in range(HEADS)]
EVERY_LAYER = [{layer: list(range(HEADS))} for layer in range(LAYERS)]
IMPORTANCE = np.arange(LAYERS * HEADS, dtype="<f4").reshape(LAYERS, HEADS)[:, ::-1].copy() / 10


def difference_of(layer: int, head: int) -> float:
    """How changing a head of the fake model moves the accuracy; by 0.01 and more the interval excludes 0."""
    return round(0.01 * (layer - 1) + 0.001 * head, 6)


def metric_effect(metric: int, difference: float) -> ablation_pb2.MetricEffect:
    p = 0.5 if metric == ablation_pb2.METRIC_ACCURACY else None
    return ablation_pb2.MetricEffect(
        metric=metric,
        score=BASELINE.get(metric, 0.0) + difference,
        difference=difference,
        low=difference - 0.0095,
        high=difference + 0.0095,
        mcnemar_p=p,
    )


def words_of(text: str) -> list[common_pb2.Token]:
    """Returns the words of a text as tokens."""
    found = enumerate(re.finditer(r"\S+", text))
    return [common_pb2.Token(text=word[0], start=word.start(), end=word.end(), word=index) for index, word in found]


def layer_heads(heads: dict[int, list[int]]) -> list[common_pb2.LayerHeads]:
    return [common_pb2.LayerHeads(layer=layer, heads=numbers) for layer, numbers in heads.items()]


def streamed(answers: Callable[[Any, Any], Iterator[Any]]) -> Any:
    """Makes the method of a stream of these answers."""

    def method(self: Any, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        context.add_callback(self.ended.set)
        self._begin(request, context)
        yield from self.stream(answers(self, request))

    return method


class FakeServer(
    ModelServiceServicer,
    ClozeServiceServicer,
    AttentionServiceServicer,
    ClassificationServiceServicer,
    AblationServiceServicer,
    BenchmarkServiceServicer,
):
    """Answers like a server. `fail` is called first in every method; `stream` filters what a stream of answers sends."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.names = ["models/fake"]
        self.models: dict[str, dict[str, Any]] = {}  # Fields that a model has beside those of every fake one.
        self.page_size = 50
        self.fail: Callable[[grpc.ServicerContext], None] = lambda context: None
        self.judge: Callable[[Any, grpc.ServicerContext], None] = lambda request, context: None
        self.stream: Callable[[Iterator[Any]], Iterator[Any]] = lambda messages: messages
        self.ended = threading.Event()
        self.provenance = PROVENANCE  # Of sweeps.
        self.source: Callable[[Any], common_pb2.Provenance] = lambda request: PROVENANCE  # Of filled masks.
        self.health = health.HealthServicer()
        self.target = ""

    def _begin(self, request: Any, context: grpc.ServicerContext) -> None:
        self.requests.append(request)
        self.judge(request, context)
        self.fail(context)

    def _model(self, name: str) -> model_pb2.Model:
        result = model(name)
        fields = self.models.get(name, {})
        result.labels.extend(fields.get("labels", ()))
        result.pruned_heads.extend(layer_heads(fields.get("pruned_heads", {})))
        result.state = fields.get("state", result.state)
        return result

    def ListModels(self, request, context):
        self._begin(request, context)
        first = int(request.page_token or 0)
        last = first + self.page_size
        token = str(last) if last < len(self.names) else ""
        return model_pb2.ListModelsResponse(models=map(self._model, self.names[first:last]), next_page_token=token)

    def GetModel(self, request, context):
        self._begin(request, context)
        return model_pb2.GetModelResponse(model=self._model(request.name or self.names[0]))

    @streamed
    def LoadModel(self, request):
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
        make, top_k = cloze_pb2.Prediction, request.top_k if request.HasField("top_k") else 5
        words = [("france", 0.5), ("italy", 0.25), ("spain", 0.125)][:top_k]
        predictions = [
            make(token=word, pieces=[word], piece_ids=[index], probability=p, log_probability=np.log(p), rank=index + 1)
            for index, (word, p) in enumerate(words)
        ]
        if request.candidates:
            fields = {"probability": 0.1, "log_probability": -2.3, "candidate_probability": 0.5}
            predictions = [make(token=word, **fields) for word in request.candidates]
        results = []
        for text in request.texts:
            start = text.index("[MASK]")
            mask = cloze_pb2.FilledMask(token_index=3, start=start, end=start + 6, predictions=predictions)
            results.append(cloze_pb2.FilledText(masks=[mask], tokens=7))
        return cloze_pb2.FillMaskResponse(results=results, provenance=self.source(request))

    def ExtractAttention(self, request, context):
        context.add_callback(self.ended.set)
        self._begin(request, context)
        yield from self.stream(self._attention(request))

    def DescribeAttention(self, request, context):
        self._begin(request, context)
        numbers = descriptions.Numbers(len(request.inputs), LAYERS, HEADS, seed=len(request.inputs[0].text))
        return descriptions.description(numbers, pairs=False, distances=request.head_distances)

    def ScoreRelations(self, request, context):
        self._begin(request, context)
        arguments = {"texts": len(request.texts), "seed": len(request.texts), "details": request.details}
        return descriptions.relation_scores(dict.fromkeys(request.relations, 2), LAYERS, HEADS, **arguments)

    def ScoreFeatures(self, request, context):
        self._begin(request, context)
        special = ["[CLS]", "[SEP]"] if request.special_tokens else []
        return descriptions.feature_scores([*request.features, *special], LAYERS, HEADS, texts=len(request.texts))

    def Classify(self, request, context):
        self._begin(request, context)
        labels = [
            classification_pb2.LabelPrediction(label=label, index=index, probability=probability, logit=np.log(probability))
            for label, index, probability in (("positive", 1, 0.75), ("negative", 0, 0.25))
        ]
        results = [classification_pb2.ClassifiedText(labels=labels, tokens=5) for _ in request.inputs]
        return classification_pb2.ClassifyResponse(results=results, provenance=PROVENANCE)

    def PredictValues(self, request, context):
        self._begin(request, context)
        results = [
            classification_pb2.PredictedValue(value=len(asked.text) - len(asked.text_pair) / 2, tokens=5, truncated_tokens=2)
            for asked in request.inputs
        ]
        return classification_pb2.PredictValuesResponse(results=results, provenance=PROVENANCE)

    def ClassifyTokens(self, request, context):
        self._begin(request, context)
        label = classification_pb2.LabelPrediction(label="B-LOC", index=1, probability=0.75, logit=1.5)
        whole = [common_pb2.CharacterSpan(end=len(asked.input.text)) for asked in request.inputs]
        results = [
            classification_pb2.TaggedText(
                words=[classification_pb2.TaggedWord(span=span, labels=[label] * request.top_k)],
                mentions=[classification_pb2.Mention(type="LOC", span=span, probability=0.75)],
                tokens=5,
                truncated_tokens=2,
            )
            for span in whole
        ]
        scheme = classification_pb2.LABEL_SCHEME_IOB
        return classification_pb2.ClassifyTokensResponse(results=results, scheme=scheme, provenance=PROVENANCE)

    def RankHeads(self, request, context):
        self._begin(request, context)
        found = {"importance": tensor(IMPORTANCE), "gradient": tensor(IMPORTANCE * 2), "items": 7, "skipped_items": 1}
        return ablation_pb2.RankHeadsResponse(**found, loss=1.5, provenance=PROVENANCE)

    def PruneHeads(self, request, context):
        self._begin(request, context)
        pruned = model(f"models/{request.model_id}")
        for each in request.heads:
            pruned.pruned_heads.add(layer=each.layer, heads=each.heads or range(HEADS))
        return ablation_pb2.PruneHeadsResponse(model=pruned)

    @streamed
    def SweepHeads(self, request):
        response = ablation_pb2.SweepHeadsResponse
        sets = EVERY_LAYER if request.scope == ablation_pb2.SweepHeadsRequest.SCOPE_EVERY_LAYER else EVERY_HEAD
        if request.sets:
            sets = [{each.layer: list(each.heads) or [0] for each in heads.layers} for heads in request.sets]
        total = len(sets)
        done = [{each.layer: list(each.heads) for each in heads.layers} for heads in request.done]
        sets = [heads for heads in sets if heads not in done]
        divergence = request.objective.HasField("divergence")
        metrics = {ablation_pb2.METRIC_DIVERGENCE: 0.0} if divergence else BASELINE
        greedy = request.HasField("greedy")
        yield response(
            start=ablation_pb2.SweepStart(
                baseline=[ablation_pb2.MetricScore(metric=metric, score=score) for metric, score in metrics.items()],
                total=len(sets) + (greedy and not done),
                done=len(done),
                items=20,
                skipped_items=2,
                predicted_pieces=20,
                bootstrap=ablation_pb2.Bootstrap(
                    resamples=request.bootstrap.resamples or 1000,
                    seed=request.bootstrap.seed,
                    confidence=request.bootstrap.confidence or 0.95,
                ),
                provenance=self.provenance,
            )
        )
        if greedy and not done:
            effects = [metric_effect(metric, 0.0) for metric in metrics]
            yield response(point=ablation_pb2.CurvePoint(share_removed=0, metrics=effects))
        for index, heads in enumerate(sets, start=1 + len(done)):
            layer, numbers = next(iter(heads.items()))
            head_set = ablation_pb2.HeadSet(layers=layer_heads(heads))
            effects = [metric_effect(metric, difference_of(layer, numbers[0])) for metric in metrics]
            if greedy:
                point = ablation_pb2.CurvePoint(added=[head_set], share_removed=index / total, metrics=effects)
                yield response(point=point)
            else:
                yield response(effect=ablation_pb2.HeadEffect(heads=head_set, metrics=effects))
        summary = ablation_pb2.SweepSummary(
            helped=4, hurt=4, layer_passes=600, full_layer_passes=1200, seconds=1.25, provenance=self.provenance
        )
        yield response(summary=summary)

    @streamed
    def SweepSites(self, request):
        """Gives each layer and word of a text the effect characters * (layer + 1) * (position + 1) / 100."""
        response, sites = ablation_sites_pb2.SweepSitesResponse, [scope.site for scope in request.scopes]
        pairs = [
            ablation_sites_pb2.PairValues(tokens=words_of(pair.clean.text), clean=4.0, corrupted=-4.0) for pair in request.pairs
        ]
        places = list(itertools.product(sites, range(LAYERS), range(len(pairs[0].tokens))))
        yield response(
            start=ablation_sites_pb2.SiteSweepStart(
                total=len(places),
                pairs=pairs,
                positions=request.positions or ablation_sites_pb2.POSITION_SCOPE_EACH,
                direction=request.direction or ablation_sites_pb2.PATCH_DIRECTION_RESTORE,
                provenance=self.provenance,
            )
        )
        for site, layer, position in places:
            values = [len(pair.clean.text) * (layer + 1) * (position + 1) / 100 for pair in request.pairs]
            sums = {"count": len(values), "sum": sum(values), "sum_of_squares": sum(value**2 for value in values)}
            ratios = {"ratios": len(values), "ratio_sum": sum(values) / 8, "ratio_sum_of_squares": sums["sum_of_squares"] / 64}
            effect = ablation_sites_pb2.SiteEffect(site=site, layer=layer, position=position, **sums, **ratios)
            yield response(effect=effect)
        summary = ablation_sites_pb2.SiteSweepSummary(
            layer_passes=60, full_layer_passes=120, seconds=1.25, provenance=self.provenance
        )
        yield response(summary=summary)

    @streamed
    def CompressModel(self, request):
        kinds = [step.WhichOneof("step") for step in request.steps]
        for done, kind in enumerate([*kinds, "loading"]):
            progress = model_pb2.CompressionProgress(done_steps=done, total_steps=len(kinds) + 1, detail=kind)
            yield model_pb2.CompressModelResponse(progress=progress)
        compressed = model(f"models/{request.model_id}")
        for kind in kinds:
            compressed.compression.append(compression_pb2.AppliedStep(step=kind, description=f"did {kind}"))
        yield model_pb2.CompressModelResponse(model=compressed)

    @streamed
    def BenchmarkModels(self, request):
        for done, stage in enumerate(("warming up", "latency at 32 tokens")):
            progress = benchmark_pb2.BenchmarkProgress(stage=stage, done=done / 2)
            yield benchmark_pb2.BenchmarkModelsResponse(progress=progress)
        baseline = request.baseline or request.models[0]
        lengths = tuple(request.measurement.lengths) or reports.LENGTHS
        parts = {"agreement": bool(request.agreement_texts), "scores": request.HasField("objective"), "lengths": lengths}
        models = [
            reports.model(name.removeprefix("models/"), None if name == baseline else index + 1.0, kept=0.9, **parts)
            for index, name in enumerate(request.models)
        ]
        report = reports.report(*models)
        report.baseline = baseline
        yield benchmark_pb2.BenchmarkModelsResponse(report=report)

    @streamed
    def BenchmarkStudies(self, request):
        response = benchmark_pb2.BenchmarkStudiesResponse
        for name in request.systems or ("DistilBERT", "WaLDORf"):
            yield response(progress=benchmark_pb2.BenchmarkProgress(stage=name, done=0.5))
            why = "has convolutional layers" if name == "WaLDORf" else ""
            yield response(row=reports.study(name, 1.9, why=why, compression="1.5", speedup="1.6"))
        yield response(summary=reports.summary())

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


class Waiting(FakeServer):
    """A server that loads a model until the caller leaves."""

    def LoadModel(self, request: Any, context: Any) -> Iterator[Any]:
        context.add_callback(self.ended.set)
        yield model_pb2.LoadModelResponse(progress=model_pb2.LoadProgress(detail="waiting"))
        self.ended.wait(granted(60))


def start(fake: FakeServer) -> grpc.Server:
    """Serves on a free port."""
    host = grpc.server(futures.ThreadPoolExecutor(8))
    for service in FakeServer.__bases__:
        getattr(sys.modules[service.__module__], f"add_{service.__name__}_to_server")(fake, host)
    health_pb2_grpc.add_HealthServicer_to_server(fake.health, host)
    fake.target = f"127.0.0.1:{host.add_insecure_port('127.0.0.1:0')}"
    host.start()
    return host
