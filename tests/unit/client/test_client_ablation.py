"""A stream of effects becomes a table, a reply a ranking; what breaks the contract is refused."""

import math
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.ablation.assembly import SweepAssembler
from bertscope.questions.ablation.ranking import read_head_ranking
from bertscope.questions.ablation.sweeps import POINT_COLUMNS
from bertscope.v1 import ablation_pb2, common_pb2

Response = ablation_pb2.SweepHeadsResponse
ACCURACY, LOSS, DIVERGENCE = (
    ablation_pb2.METRIC_ACCURACY,
    ablation_pb2.METRIC_LOSS,
    ablation_pb2.METRIC_DIVERGENCE,
)


def start(total: int = 2, metrics: tuple[int, ...] = (ACCURACY, LOSS)) -> Response:
    baseline = [ablation_pb2.MetricScore(metric=metric, score=0.5) for metric in metrics]
    return Response(start=ablation_pb2.SweepStart(baseline=baseline, total=total, items=9))


def metric_effects(difference: float, metrics: tuple[int, ...], margin: float | None) -> list[ablation_pb2.MetricEffect]:
    bounds: dict[str, Any] = {} if margin is None else {"low": difference - margin, "high": difference + margin}
    return [
        ablation_pb2.MetricEffect(metric=metric, score=0.5 + difference, difference=difference, **bounds) for metric in metrics
    ]


def head_set(heads: dict[int, list[int]]) -> ablation_pb2.HeadSet:
    layers = [common_pb2.LayerHeads(layer=layer, heads=numbers) for layer, numbers in heads.items()]
    return ablation_pb2.HeadSet(layers=layers)


def effect(
    heads: dict[int, list[int]],
    difference: float,
    metrics: tuple[int, ...] = (ACCURACY, LOSS),
    margin: float | None = 0.1,
) -> Response:
    found = ablation_pb2.HeadEffect(heads=head_set(heads), metrics=metric_effects(difference, metrics, margin))
    return Response(effect=found)


def point(added: list[dict[int, list[int]]], share: float) -> Response:
    metrics = metric_effects(-share, (ACCURACY, LOSS), 0.1)
    return Response(point=ablation_pb2.CurvePoint(added=map(head_set, added), share_removed=share, metrics=metrics))


SUMMARY = Response(summary=ablation_pb2.SweepSummary(helped=1, seconds=2, provenance=common_pb2.Provenance(model="models/m")))


def assemble(*messages: Response, **request: Any) -> bertscope.SweepTable:
    assembler = SweepAssembler(ablation_pb2.SweepHeadsRequest(mode=1, **request))
    for message in messages:
        assembler.add(message)
    return assembler.end()


def test_a_table_of_heads():
    table = assemble(start(), effect({1: [2]}, 0.25), Response(), effect({0: [0]}, -0.5), SUMMARY)
    assert (table.mode, table.scope, table.what) == ("zero", "heads", "each head zeroed")
    expected_repr = "<SweepTable: each head zeroed, 9 items, models/m; baseline accuracy 0.5, loss 0.5; 2 effects>"
    assert repr(table).splitlines()[0] == expected_repr
    assert table.baseline == {"accuracy": 0.5, "loss": 0.5}
    assert table.provenance.model == "models/m"
    first = table.effects[0]
    assert (first.layer, first.head, first.heads, first.name, first.difference) == (1, 2, {1: (2,)}, "1:2", 0.25)
    expected = np.full((2, 3), np.nan)
    expected[1, 2], expected[0, 0] = 0.25, -0.5
    np.testing.assert_array_equal(table.matrix(), expected)
    np.testing.assert_array_equal(table.matrix("loss", "low"), expected - 0.1)
    assert table.matrix().dtype == np.float64
    with pytest.raises(KeyError, match=r"divergence is not among .*: accuracy, loss"):
        table.matrix("divergence")
    with pytest.raises(ValueError, match="what must be one of score, difference"):
        table.matrix(what="metric")


def test_a_table_says_how_its_intervals_were_made():
    request = ablation_pb2.SweepHeadsRequest(mode=4, scale=0.5)
    request.bootstrap.resamples, request.bootstrap.seed, request.bootstrap.confidence = 200, 3, 0.9
    for asked, expected in ((request, (0.5, 0.9, 200, 3)), (ablation_pb2.SweepHeadsRequest(mode=1), (None, 0.95, 1000, 0))):
        assembler = SweepAssembler(asked)
        start = ablation_pb2.SweepStart(baseline=[ablation_pb2.MetricScore(metric=ablation_pb2.METRIC_LOSS)])
        assembler.add(ablation_pb2.SweepHeadsResponse(start=start))
        assembler.add(ablation_pb2.SweepHeadsResponse(summary=ablation_pb2.SweepSummary()))
        table = assembler.end()
        assert (table.factor, table.confidence, table.resamples, table.seed) == expected


def test_what_the_server_used_counts_and_not_what_it_was_asked():
    """The client had constants of its own; a server may take others, and raises its resamples for a high confidence."""
    request = ablation_pb2.SweepHeadsRequest(mode=1, bootstrap=ablation_pb2.Bootstrap(confidence=0.999))
    used = ablation_pb2.Bootstrap(confidence=0.999, resamples=10_000, seed=5)
    message = ablation_pb2.SweepStart(
        baseline=[ablation_pb2.MetricScore(metric=LOSS)], bootstrap=used, provenance=common_pb2.Provenance(model="models/m")
    )
    assembler = SweepAssembler(request)
    assembler.add(Response(start=message))
    assembler.add(SUMMARY)
    table = assembler.end()
    assert (table.confidence, table.resamples, table.seed) == (0.999, 10_000, 5)
    assert table.start.bootstrap == bertscope.Bootstrap(resamples=10_000, seed=5, confidence=0.999)
    assert table.start.provenance is not None and table.start.provenance.model == "models/m"


def test_how_intervals_were_computed_and_why_not():
    method, why = ablation_pb2.INTERVAL_METHOD_ADJUSTED_WALD, ablation_pb2.NO_INTERVAL_TOO_FEW_DIFFER
    metrics = [
        ablation_pb2.MetricEffect(metric=ACCURACY, low=0, high=1, interval_method=method),
        ablation_pb2.MetricEffect(metric=LOSS, no_interval=why),
    ]
    found = Response(effect=ablation_pb2.HeadEffect(heads=head_set({0: [0]}), metrics=metrics))
    accuracy, loss = assemble(start(1), found, SUMMARY).effects[0].metrics.values()
    assert (accuracy.interval_method, accuracy.no_interval) == ("adjusted_wald", None)
    assert (loss.interval_method, loss.no_interval, loss.decided) == (None, "too_few_differ", False)


def test_a_table_of_layers():
    layers = ablation_pb2.SweepHeadsRequest.SCOPE_EVERY_LAYER
    table = assemble(start(), effect({0: [0, 1]}, 0.25), effect({1: [0, 1]}, 0.5), SUMMARY, scope=layers)
    assert (table.scope, table.effects[1].layer, table.effects[1].head) == ("layers", 1, None)
    np.testing.assert_array_equal(table.matrix(), [[0.25], [0.5]])


def test_sets_of_heads_have_no_place_in_a_matrix():
    sets = [head_set({0: [0, 1], 3: [2]}), head_set({1: [0]})]
    table = assemble(start(), effect({0: [0, 1], 3: [2]}, 0.25), effect({1: [0]}, 0.5), SUMMARY, sets=sets)
    assert (table.effects[0].layer, table.effects[0].head, table.effects[0].name) == (None, None, "0:0,1+3:2")
    with pytest.raises(ValueError, match="to_pandas"):
        table.matrix()


def test_a_curve_counts_the_heads_that_are_removed():
    messages = start(3), point([], 0), point([{0: [1]}, {2: [0, 3]}], 0.5), point([{1: [1]}], 1), SUMMARY
    table = assemble(*messages, greedy=ablation_pb2.Greedy())
    assert [point.removed for point in table.points] == [0, 3, 4]
    assert table.points[1].added == ({0: (1,)}, {2: (0, 3)})
    assert table.effects == ()
    frame = table.to_pandas()
    assert list(frame.columns) == POINT_COLUMNS
    assert frame[["removed", "share_removed", "added", "metric"]].values.tolist()[2:4] == [
        [3, 0.5, "0:1 2:0,3", "accuracy"],
        [3, 0.5, "0:1 2:0,3", "loss"],
    ]
    with pytest.raises(ValueError, match="only a sweep over heads or layers"):
        table.matrix()


def test_effects_as_a_pandas_table():
    table = assemble(start(), effect({1: [2, 3]}, 0.25, margin=None), effect({0: [0]}, -0.5), SUMMARY)
    frame = table.to_pandas()
    columns = ["layer", "head", "heads", "metric", "score", "difference", "low", "high", "mcnemar_p"]
    assert list(frame.columns) == [*columns, "interval_method", "no_interval"]
    assert list(frame["heads"]) == ["1:2,3", "1:2,3", "0:0", "0:0"]
    assert list(frame["metric"]) == ["accuracy", "loss"] * 2
    assert frame["head"].isna().tolist() == [True, True, False, False]
    assert frame["low"].isna().tolist() == [True, True, False, False]
    assert (frame["low"].dtype, frame["layer"].dtype) == ("Float64", "Int64")


@pytest.mark.parametrize(
    ("metric", "difference", "margin", "helped", "hurt"),
    [
        ("accuracy", 0.2, 0.1, True, False),
        ("accuracy", -0.2, 0.1, False, True),
        ("accuracy", 0.2, 0.2, False, False),
        ("accuracy", 0.2, None, False, False),
        ("reciprocal_rank", 0.2, 0.1, True, False),
        ("loss", 0.2, 0.1, False, True),
        ("loss", -0.2, 0.1, True, False),
        ("divergence", 0.2, 0.1, False, False),
        ("a_new_one", 0.2, 0.1, False, False),
    ],
)
def test_helped_and_hurt(metric, difference, margin, helped, hurt):
    low, high = (None, None) if margin is None else (difference - margin, difference + margin)
    effect = bertscope.MetricEffect(metric, 0.5, difference, low, high, None)
    assert (effect.helped, effect.hurt) == (helped, hurt)
    assert effect.decided == (margin == 0.1)


def test_unset_is_not_zero():
    message = ablation_pb2.MetricEffect(metric=ACCURACY, low=0, high=0, mcnemar_p=0)
    both = Response(effect=ablation_pb2.HeadEffect(heads=head_set({0: [0]}), metrics=[message]))
    table = assemble(start(2, (ACCURACY,)), both, effect({1: [1]}, 0, (ACCURACY,), None), SUMMARY)
    zero, unset = (effect.metrics["accuracy"] for effect in table.effects)
    assert (zero.low, zero.high, zero.mcnemar_p) == (0, 0, 0)
    assert (unset.low, unset.high, unset.mcnemar_p) == (None, None, None)
    assert math.isnan(table.matrix(what="low")[1, 1])


EFFECT = effect({0: [0]}, 0.1)
POINT = point([], 0)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "ended early"),
        ([start(1), EFFECT], "1 of 1 effects and no summary"),
        ([start(2), EFFECT, SUMMARY], "announced 2 effects and sent 1"),
        ([start(0), EFFECT, SUMMARY], "announced 0 effects and sent 1"),
        ([EFFECT], "effect of a sweep where it is not due"),
        ([SUMMARY], "summary of a sweep where it is not due"),
        ([start(), start()], "start of a sweep where it is not due"),
        ([start(1), EFFECT, SUMMARY, EFFECT], "effect of a sweep where it is not due"),
        ([start(1), EFFECT, SUMMARY, SUMMARY], "summary of a sweep where it is not due"),
        ([start(1), POINT], "a point that was not asked for"),
        ([start(1, ())], "without a baseline"),
        ([start(1), effect({0: [0]}, 0.1, (ACCURACY,))], "where the baseline has"),
        ([start(1), effect({0: [0]}, 0.1, (LOSS, ACCURACY))], "where the baseline has"),
        ([start(1), effect({}, 0.1)], "of which heads"),
        ([start(1), effect({0: []}, 0.1)], "of which heads"),
    ],
)
def test_a_stream_that_breaks_the_contract_is_invalid(messages, message):
    with pytest.raises(bertscope.InvalidReply, match=message):
        assemble(*messages)


def test_a_curve_of_effects_is_invalid():
    with pytest.raises(bertscope.InvalidReply, match="an effect that was not asked for"):
        assemble(start(1), EFFECT, greedy=ablation_pb2.Greedy())


def tensor(values: Any, dtype: str = "<f4") -> common_pb2.Tensor:
    array = np.array(values, dtype)
    number = {"<f4": common_pb2.DATA_TYPE_FLOAT32, "<f2": common_pb2.DATA_TYPE_FLOAT16}[dtype]
    return common_pb2.Tensor(dtype=number, shape=array.shape, data=array.tobytes())


def ranking(values: Any) -> bertscope.HeadRanking:
    message = ablation_pb2.RankHeadsResponse(importance=tensor(values), gradient=tensor(values), items=3, loss=1.5)
    return read_head_ranking(message)


def test_a_ranking():
    found = ranking([[0.3, 0.1, 0.2], [0.1, 0.5, 0.0]])
    assert found.importance.dtype == np.float32
    assert repr(found).startswith("<HeadRanking: 2 x 3 heads, ")
    assert found.order() == [(1, 2), (0, 1), (1, 0), (0, 2), (0, 0), (1, 1)]
    assert found.least(count=3) == {0: (1,), 1: (0, 2)}
    assert found.least(share=0.5) == found.least(count=3)
    assert found.least(share=0.49) == found.least(count=2)
    assert found.least(share=0) == {}
    assert found.least(share=1) == {0: (0, 1, 2), 1: (0, 1, 2)}
    frame = found.to_pandas()
    assert list(frame.columns) == ["layer", "head", "importance", "gradient", "order"]
    assert frame["order"].tolist() == [5, 2, 4, 3, 6, 1]


def test_a_share_means_what_it_says_in_spite_of_rounding():
    assert sum(map(len, ranking(np.arange(100).reshape(10, 10)).least(share=0.29).values())) == 29


@pytest.mark.parametrize(
    "arguments", [{}, {"share": 0.5, "count": 1}, {"share": 1.1}, {"share": -0.1}, {"share": "1"}, {"count": 5}, {"count": -1}]
)
def test_what_is_no_share_and_no_count_is_refused(arguments):
    with pytest.raises(bertscope.InvalidArgument):
        ranking([[1, 2], [3, 4]]).least(**arguments)


@pytest.mark.parametrize(
    ("importance", "gradient", "message"),
    [
        (common_pb2.Tensor(), tensor([[1]]), "as a matrix"),
        (tensor([1, 2]), tensor([1, 2]), "as a matrix"),
        (common_pb2.Tensor(dtype=1, shape=[2, 2], data=b"1234"), tensor([[1]]), "4 bytes as a matrix"),
        (common_pb2.Tensor(dtype=7, shape=[1, 1], data=b"1234"), tensor([[1]]), "as a matrix"),
        (tensor([[1, 2]]), tensor([[1]]), "importance of shape"),
    ],
)
def test_a_ranking_that_breaks_the_contract_is_invalid(importance, gradient, message):
    with pytest.raises(bertscope.InvalidReply, match=message):
        read_head_ranking(ablation_pb2.RankHeadsResponse(importance=importance, gradient=gradient))


def test_half_precision_becomes_float32():
    message = ablation_pb2.RankHeadsResponse(importance=tensor([[0.5]], "<f2"), gradient=tensor([[1]], "<f2"))
    assert read_head_ranking(message).importance.dtype == np.float32
