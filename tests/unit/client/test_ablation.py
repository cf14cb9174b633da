"""A stream of effects becomes a table or a curve, a reply a ranking, in order; what breaks the contract is refused."""

from dataclasses import replace
from typing import Any

import bertscope
import numpy as np
from bertscope.questions.ablation.assembly import SweepAssembler
from bertscope.questions.ablation.effects import read_head_ranking
from bertscope.v1 import ablation_pb2, common_pb2

from tests.support.broken_replies import refusals
from tests.support.stored_outputs import outcome
from tests.support.swept_tables import curve, table_of

Response = ablation_pb2.SweepHeadsResponse
ACCURACY, LOSS = ablation_pb2.METRIC_ACCURACY, ablation_pb2.METRIC_LOSS


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
    heads: dict[int, list[int]], difference: float, metrics: tuple[int, ...] = (ACCURACY, LOSS), margin: float | None = 0.1
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


def tensor(values: Any, dtype: str = "<f4") -> common_pb2.Tensor:
    array = np.array(values, dtype)
    number = {"<f4": common_pb2.DATA_TYPE_FLOAT32, "<f2": common_pb2.DATA_TYPE_FLOAT16}[dtype]
    return common_pb2.Tensor(dtype=number, shape=array.shape, data=array.tobytes())


def ranking(values: Any) -> bertscope.HeadRanking:
    message = ablation_pb2.RankHeadsResponse(importance=tensor(values), gradient=tensor(values), items=3, loss=1.5)
    return read_head_ranking(message)


def test_a_share_means_what_it_says_in_spite_of_rounding():
    assert sum(map(len, ranking(np.arange(100).reshape(10, 10)).least(share=0.29).values())) == 29


def test_tables(stored) -> None:
    heads = assemble(start(), effect({1: [2]}, 0.25), Response(), effect({0: [0]}, -0.5, margin=None), SUMMARY)
    layers = {"scope": ablation_pb2.SweepHeadsRequest.SCOPE_EVERY_LAYER}
    whole = assemble(start(), effect({0: [0, 1]}, 0.25), effect({1: [0, 1]}, 0.5), SUMMARY, **layers)
    sets = [head_set({0: [0, 1], 3: [2]}), head_set({1: [0]})]
    of_sets = assemble(start(), effect({0: [0, 1], 3: [2]}, 0.25), effect({1: [0]}, 0.5), SUMMARY, sets=sets)
    points = point([], 0), point([{0: [1]}, {2: [0, 3]}], 0.5), point([{1: [1]}], 1)
    curve = assemble(start(3), *points, SUMMARY, greedy=ablation_pb2.Greedy())
    stored(
        heads=heads,
        matrices=[heads.matrix(), heads.matrix("loss", "low"), whole.matrix()],
        layers=whole.to_pandas(),
        sets=of_sets.effects,
        curve=curve.points,
        frame_of_a_curve=curve.to_pandas(),
        refused=[
            lambda: heads.matrix("divergence"),
            lambda: heads.matrix(what="metric"),
            lambda: of_sets.matrix(),
            lambda: curve.matrix(),
        ],
    )


def test_what_the_server_used_counts_and_not_what_it_was_asked(stored) -> None:
    """A server may take other constants, and raises its resamples for a high confidence. Unset is not zero."""
    request = ablation_pb2.SweepHeadsRequest(mode=4, scale=0.5)
    request.bootstrap.resamples, request.bootstrap.seed, request.bootstrap.confidence = 200, 3, 0.9
    begin = ablation_pb2.SweepStart(baseline=[ablation_pb2.MetricScore(metric=LOSS)], total=1)
    used = ablation_pb2.SweepStart(bootstrap=ablation_pb2.Bootstrap(confidence=0.999, resamples=10_000, seed=5))
    used.provenance.model = "models/m"
    used.MergeFrom(begin)
    method, why = ablation_pb2.INTERVAL_METHOD_ADJUSTED_WALD, ablation_pb2.NO_INTERVAL_TOO_FEW_DIFFER
    zero = ablation_pb2.MetricEffect(metric=LOSS, low=0, high=0, mcnemar_p=0, interval_method=method)
    unset = ablation_pb2.MetricEffect(metric=LOSS, no_interval=why)
    found = []
    for asked, said, sent in (
        (request, begin, zero),
        (ablation_pb2.SweepHeadsRequest(mode=1), begin, unset),
        (request, used, zero),
    ):
        assembler = SweepAssembler(asked)
        assembler.add(Response(start=said))
        assembler.add(Response(effect=ablation_pb2.HeadEffect(heads=head_set({0: [0]}), metrics=[sent])))
        assembler.add(SUMMARY)
        found.append(assembler.end())
    stored(asked=found[0], by_default=found[1], used=found[2])


def test_a_stream_that_breaks_the_contract_is_invalid(stored) -> None:
    def read(messages, **request):
        return assemble(*messages, **request)

    def read_curve(messages):
        return assemble(*messages, greedy=ablation_pb2.Greedy())

    good = start(1), effect({0: [0]}, 0.1), SUMMARY
    stored(
        heads=refusals(read, *good),
        curve=refusals(read_curve, start(1), point([{0: [1]}], 0.5), SUMMARY),
        others=[
            lambda: read([]),
            lambda: read([start(1), point([], 0)]),
            lambda: read_curve(good),
            lambda: read([start(1), effect({0: [0]}, 0.1, (LOSS, ACCURACY))]),
        ],
    )


def test_a_ranking(stored) -> None:
    found = ranking([[0.3, 0.1, 0.2], [0.1, 0.5, 0.0]])
    choices: list[dict[str, Any]] = [{"count": 3}, {"share": 0.5}, {"share": 0.49}, {"share": 0}, {"share": 1}]
    choices += [{}, {"share": 0.5, "count": 1}, {"share": 1.1}, {"share": -0.1}, {"share": "1"}, {"count": 7}, {"count": -1}]
    half = ablation_pb2.RankHeadsResponse(importance=tensor([[0.5]], "<f2"), gradient=tensor([[1]], "<f2"))
    message = ablation_pb2.RankHeadsResponse(importance=tensor([[1, 2]]), gradient=tensor([[3, 4]]), items=3, loss=1.5)
    stored(
        ranking=found,
        order=found.order(),
        least=[outcome(lambda choice=choice: found.least(**choice)) for choice in choices],
        of_half_precision=read_head_ranking(half),
        broken=refusals(lambda messages: read_head_ranking(*messages), message),
    )


def test_helped_and_hurt(stored) -> None:
    """By the interval, and by whether more of a metric is better, which of a new one nobody knows."""
    found = {}
    for metric in ("accuracy", "reciprocal_rank", "loss", "divergence", "a_new_one"):
        for difference, margin in ((0.2, 0.1), (-0.2, 0.1), (0.2, 0.2), (0.2, None)):
            low, high = (None, None) if margin is None else (difference - margin, difference + margin)
            effect = bertscope.MetricEffect(metric, 0.5, difference, low, high, None)
            found[f"{metric} {difference} within {margin}"] = [effect.decided, effect.helped, effect.hurt]
    stored(decided_helped_and_hurt=found)


HEADS = table_of({(0, 0): -0.3, (0, 1): 0.1, (1, 0): -0.1, (1, 1): 0.1, (2, 0): -0.2})
LAYERS = table_of({(0, 0, 1): -0.1, (1, 0, 1): 0.0, (2, 0): -0.2}, scope="layers")


def test_the_least_important_come_first_and_equal_ones_as_they_came(stored) -> None:
    """table_of has the loss better where the accuracy is better; a divergence ranks by how little changes."""
    moved = table_of({(0, 0): 0.3, (0, 1): 0.1}, "divergence")
    orders = HEADS.order(), HEADS.order("loss"), LAYERS.order(), moved.order("divergence")
    stored(
        orders=[[effect.name for effect in order] for order in orders],
        what_prune_heads_takes=[
            HEADS.least(count=3),
            HEADS.least(share=0.5),
            HEADS.least(share=0.1),
            LAYERS.least(count=2, metric="loss"),
        ],
        refused=[
            lambda: curve(0.1, 0.2).order(),
            lambda: replace(HEADS, interrupted="a deadline").order(),
            lambda: HEADS.order("spearman"),
            lambda: HEADS.least(),
            lambda: LAYERS.least(count=4),
        ],
    )
