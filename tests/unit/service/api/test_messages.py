"""Messages of requests and replies beside what the service makes of them: models, sweeps, compression."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import common_pb2
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import compression_pb2 as compression
from bertscope.v1 import model_pb2 as model
from bertscope.v1 import representation_states_pb2 as states_pb2
from bertscope_service.ablation.sweep_plan import Effect
from bertscope_service.analyses.interventions import Mode
from bertscope_service.analyses.masked_rows import Scoring
from bertscope_service.analyses.metrics import Bootstrap, Metric, MetricEffect
from bertscope_service.analyses.objectives.masked_lm import MaskedLmQuery
from bertscope_service.analyses.objectives.minimal_pairs import MinimalPairsQuery
from bertscope_service.analyses.objectives.similarity import SimilarityQuery
from bertscope_service.analyses.observers.pooling import Pooling
from bertscope_service.api.ablation import render_effect
from bertscope_service.api.compression import CompressQuery, parse_compress
from bertscope_service.api.field_checks import check_fields
from bertscope_service.api.intervals import check_draws, parse_bootstrap
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.model_rendering import render_page
from bertscope_service.api.models import load_spec, parse_load
from bertscope_service.api.objectives import parse_objective
from bertscope_service.api.pages import parse_page
from bertscope_service.api.sweeps import parse_sweep
from bertscope_service.api.tensor_chunks import render_chunks
from bertscope_service.checkpoints.steps import (
    Criterion,
    EliminateTokens,
    Half,
    Int8,
    KeepLayers,
    OnnxExport,
    PruneMagnitude,
    ReduceVocabulary,
    RemoveFeedForward,
    RemoveHeads,
    Step,
    Untrain,
    WeightOnly,
)
from bertscope_service.encoders.base import Shape
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.hosted import HostedModel
from bertscope_service.models.loaded import LoadSpec
from bertscope_service.rpc.hosting import parse_model
from bertscope_service.settings import Settings

SETTINGS = Settings()


def refusal(parse: Any, *arguments: Any) -> tuple[str, str]:
    with pytest.raises(InvalidArgument) as caught:
        parse(*arguments)
    assert caught.value.reason.isupper()
    return caught.value.field, caught.value.message


def test_chunks_are_little_endian_whatever_the_maps_are() -> None:
    (rendered,) = render_chunks(attention.AttentionChunk, 0, 0, np.array([1.0, 2.0], dtype=">f4"))
    response = attention.ExtractAttentionResponse.FromString(rendered)
    np.testing.assert_array_equal(np.frombuffer(response.chunk.data, "<f4"), [1, 2])


@pytest.mark.parametrize(
    ("entry", "name", "source"),
    [
        ("org/model", "models/model", "org/model"),
        ("name=org/model", "models/name", "org/model"),
        ("/a/b.c/", "models/b.c", "/a/b.c/"),
        ("n=/a/b", "models/n", "/a/b"),
        ("/a=b/c", "models/c", "/a=b/c"),
        ("n=/a=b/c", "models/n", "/a=b/c"),
        ("bertscope-mini", "models/bertscope-mini", "bertscope-mini"),
    ],
)
def test_a_model_flag_is_name_and_source(entry: str, name: str, source: str) -> None:
    spec = parse_model(entry, SETTINGS)
    assert (spec.name, spec.source, spec.device, spec.precision) == (name, source, "auto", "auto")


@pytest.mark.parametrize("model_id", ["a", "A-b_c.d", "0", "x" * 63])
def test_model_ids(model_id: str) -> None:
    assert load_spec(model_id, "s", "cpu", "fp32", "torch").name == f"models/{model_id}"


@pytest.mark.parametrize("model_id", ["-a", ".a", "_a", "a b", "a/b", "é", "a\n", "x" * 64, "a=b", "😀"])
def test_malformed_model_ids(model_id: str) -> None:
    field, message = refusal(load_spec, model_id, "s", "cpu", "fp32", "torch")
    assert field == "model_id"
    assert "use 1 to 63" in message


@pytest.mark.parametrize("source", [".", "..", "/", "a/b c", "a/-"])
def test_a_source_whose_last_part_is_no_id_needs_one(source: str) -> None:
    assert refusal(load_spec, "", source, "cpu", "fp32", "torch")[0] == "model_id"
    assert load_spec("x", source, "cpu", "fp32", "torch").id == "x"


def test_load_model() -> None:
    settings = Settings(device="cpu", precision="bf16")
    expected = LoadSpec("name", "org/name", "cpu", "bf16", runtime="auto")
    assert parse_load(model.LoadModelRequest(source="org/name"), settings) == expected
    request = model.LoadModelRequest(
        source="o/n",
        model_id="i",
        device="cuda:1",
        precision=common_pb2.PRECISION_FLOAT16,
        revision="v1",
        runtime=common_pb2.RUNTIME_ONNX,
    )
    assert parse_load(request, settings) == LoadSpec("i", "o/n", "cuda:1", "fp16", "v1", runtime="onnx")


def entries(*names: str) -> list[HostedModel]:
    async def make() -> list[HostedModel]:
        return [HostedModel(LoadSpec(name, "s", "cpu", "fp32", "torch")) for name in names]

    return asyncio.run(make())


@pytest.mark.parametrize("token", ["a", "abc", "_w==", "/w=="])
def test_malformed_page_tokens(token: str) -> None:
    field, message = refusal(parse_page, model.ListModelsRequest(page_token=token))
    assert field == "page_token"
    assert "leave it out" in message


def test_a_page_token_of_a_model_that_is_gone() -> None:
    assert refusal(render_page, entries("a"), 1, "models/b")[0] == "page_token"


SWEPT = Shape("bert", 3, 2, 8, 100, 16, 1000)
LIMITS = RequestLimits(4, 20, 1000, 1_000_000)
MEMORY = 1000
LOSS = MaskedLmQuery(("a",), 0, 0.15, truncate=False)
FIRST = Pooling.FIRST

Layer = common_pb2.LayerHeads
Set = ablation.HeadSet
ZERO, UNIFORM, MEAN, SCALE = (common_pb2.HeadIntervention.Mode.Value(f"MODE_{mode.name}") for mode in Mode)


def objective(**fields: Any) -> Any:
    """The query of an objective, the same for both requests that have one."""
    given = ablation.Objective(**fields)
    check_fields(ablation.RankHeadsRequest(objective=given), LIMITS)
    query = parse_objective(ablation.SweepHeadsRequest(objective=given))
    assert parse_objective(ablation.RankHeadsRequest(objective=given)) == query
    return query


def sweep(query: Any = LOSS, **fields: Any) -> Any:
    fields.setdefault("mode", ZERO)
    request = ablation.SweepHeadsRequest(**fields)
    check_fields(request, LIMITS)
    return parse_sweep(request, query, SWEPT, "models/m", MEMORY)


def head_set(heads: dict[int, list[int]]) -> Any:
    return Set(layers=[Layer(layer=layer, heads=numbers) for layer, numbers in heads.items()])


def test_the_pooling_that_a_model_declares_is_taken_unless_another_is_asked_for() -> None:
    pairs = [ablation.RatedText(input=common_pb2.TextInput(text="a", text_pair="b"), value=value) for value in (1, 2)]
    for asked, pooling, if_declared in ((0, None, True), (states_pb2.STATE_POOLING_DECLARED, None, False), (1, FIRST, True)):
        given: Any = ablation.SimilarTexts(pairs=pairs, pooling=asked)
        similar = SimilarityQuery((("a", "b"), ("a", "b")), (1.0, 2.0), pooling, if_declared=if_declared, truncate=False)
        assert objective(similarity=given) == similar


@pytest.mark.parametrize(
    ("scoring", "meant"), [(0, Scoring.WITHIN_WORD), (1, Scoring.ORIGINAL), (2, Scoring.WITHIN_WORD), (3, Scoring.WHOLE_WORD)]
)
def test_minimal_pairs_are_scored_within_words_unless_asked(scoring: Any, meant: Scoring) -> None:
    given = ablation.MinimalPairs(pairs=[ablation.MinimalPair(good="a", bad="b")], scoring=scoring)
    assert objective(minimal_pairs=given) == MinimalPairsQuery((("a", "b"),), meant, truncate=False)


@pytest.mark.parametrize(("confidence", "resamples"), [(0.5, 1000), (0.95, 1000), (0.99, 1000), (0.995, 2000), (0.999, 10_000)])
def test_a_higher_confidence_draws_more_unless_told(confidence: float, resamples: int) -> None:
    assert parse_bootstrap(ablation.Bootstrap(confidence=confidence), "bootstrap") == Bootstrap(resamples, 0, confidence)
    told = ablation.Bootstrap(confidence=confidence, resamples=150)
    assert parse_bootstrap(told, "bootstrap").resamples == 150


def test_done_sets_are_left_out() -> None:
    one, two = head_set({0: [0]}), head_set({1: [1]})
    query = sweep(scope=ablation.SweepHeadsRequest.SCOPE_EVERY_HEAD, done=[two, one])
    assert query.done == (((1, (1,)),), ((0, (0,)),))
    assert len(query.sets) + 2 == len(sweep(scope=ablation.SweepHeadsRequest.SCOPE_EVERY_HEAD).sets)
    assert not set(query.done) & set(query.sets)
    assert sweep(sets=[one, two], done=[one, two]).sets == ()


@pytest.mark.parametrize(
    ("fields", "reason", "said"),
    [
        ({"done": [{0: [0, 1]}]}, "UNKNOWN_SET", "none of the sets that this sweep measures"),
        ({"done": [{0: [0]}, {0: [0]}]}, "DUPLICATE", r"done\[1\] is listed twice"),
        ({"sets": [{0: [0]}], "done": [{1: [0]}]}, "UNKNOWN_SET", "none of the sets"),
        ({"sets": [{0: [0]}], "done": [{0: [0]}, {0: [1]}]}, "TOO_MANY_DONE", "over after 1"),
        ({"done": [{0: [0]}, {0: [1]}], "greedy": ablation.Greedy(max_removed=1)}, "TOO_MANY_DONE", "over after 1"),
        ({"done": [{9: [0]}]}, "OUT_OF_RANGE", "layer 9"),
    ],
)
def test_sets_that_can_not_be_done(fields: dict[str, Any], reason: str, said: str) -> None:
    given = {name: [head_set(heads) for heads in fields[name]] for name in ("done", "sets") if name in fields}
    with pytest.raises(InvalidArgument, match=said) as caught:
        sweep(**{**fields, **given})
    assert reason in caught.value.reason


def test_every_metric_has_a_number() -> None:
    effects = tuple(MetricEffect(metric, 0, 0, None, None, None) for metric in Metric)
    found = render_effect(Effect(((0, (0,)),), effects)).effect.metrics
    assert [ablation.Metric.Name(entry.metric) for entry in found] == [f"METRIC_{metric.name}" for metric in Metric]


def test_draws_are_bounded() -> None:
    check_draws(Bootstrap(resamples=10_000), 10_000)
    with pytest.raises(InvalidArgument, match=r"with 10000 items use at most 10000$") as caught:
        check_draws(Bootstrap(resamples=10_001), 10_000)
    assert caught.value.field == "bootstrap.resamples"


SHAPE = Shape("bert", 4, 4, 32, 100, 64, 1000)
IMPORTANCE = compression.FeedForwardRemoval.CRITERION_IMPORTANCE


def parse(*steps: dict[str, Any], **fields: Any) -> CompressQuery:
    fields = {"model_id": "small", "steps": [compression.CompressionStep(**step) for step in steps]} | fields
    request = model.CompressModelRequest(**fields)
    check_fields(request, RequestLimits(64, 20, 1000, 1_000_000))
    return parse_compress(request, SHAPE, "models/bert")


def half(precision: int) -> dict[str, Any]:
    return {"half": compression.HalfPrecision(precision=precision)}  # type: ignore[arg-type]


def layers(*kept: int) -> dict[str, Any]:
    return {"layers": compression.LayerSelection(layers=kept)}


def heads(**fields: Any) -> dict[str, Any]:
    return {"heads": compression.HeadRemoval(**fields)}


def units(**fields: Any) -> dict[str, Any]:
    return {"feed_forward": compression.FeedForwardRemoval(**fields)}


def entry(layer: int, *numbers: int) -> common.LayerHeads:
    return common.LayerHeads(layer=layer, heads=numbers)


ONNX = {"onnx": compression.OnnxExport()}
GOOD: list[tuple[dict[str, Any], Step]] = [
    (ONNX, OnnxExport()),
    ({"int8": compression.Int8Quantization()}, Int8()),
    ({"weight_only": compression.WeightOnlyQuantization()}, WeightOnly(4, 0)),
    ({"weight_only": compression.WeightOnlyQuantization(bits=3, block_size=64)}, WeightOnly(3, 64)),
    (half(common.PRECISION_FLOAT16), Half("fp16")),
    (half(common.PRECISION_BFLOAT16), Half("bf16")),
    (layers(0, 3), KeepLayers((0, 3))),
    (heads(heads=[entry(2, 1, 0), entry(1)]), RemoveHeads({1: (0, 1, 2, 3), 2: (0, 1)})),
    (heads(share=0.5, texts=["a", "b"]), RemoveHeads(share=0.5, texts=("a", "b"))),
    (units(share=0.5), RemoveFeedForward(0.5)),
    (units(share=0.5, criterion=IMPORTANCE, texts=["a"]), RemoveFeedForward(0.5, Criterion.IMPORTANCE, ("a",))),
    ({"magnitude": compression.MagnitudePruning(share=0.25)}, PruneMagnitude(0.25)),
    ({"untrained": compression.RandomWeights(seed=7)}, Untrain(7)),
    ({"tokens": compression.TokenElimination(kept_shares=[1, 0.5])}, EliminateTokens((1.0, 0.5))),
    ({"vocabulary": compression.VocabularyReduction(texts=["a"])}, ReduceVocabulary(("a",))),
    ({"vocabulary": compression.VocabularyReduction(texts=["a"] * 65, min_count=3)}, ReduceVocabulary(("a",) * 65, 3)),
]


@pytest.mark.parametrize(("written", "step"), GOOD, ids=lambda it: it.name if hasattr(it, "name") else "")
def test_each_step(written: dict[str, Any], step: Step) -> None:
    assert parse(written) == CompressQuery("small", (step,), None)


def test_steps_keep_their_order() -> None:
    found = parse(ONNX, layers(1), heads(heads=[entry(0, 1)]), folder="/models/small")
    assert found == CompressQuery("small", (OnnxExport(), KeepLayers((1,)), RemoveHeads({0: (1,)})), Path("/models/small"))
