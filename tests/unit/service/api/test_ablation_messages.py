"""Requests of AblationService become queries or are refused with the field and a remedy; what was measured becomes replies."""

from typing import Any

import pytest
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import common_pb2
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
from bertscope_service.api.field_checks import check_fields
from bertscope_service.api.intervals import check_draws, parse_bootstrap
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.objectives import parse_objective
from bertscope_service.api.sweeps import parse_sweep
from bertscope_service.encoders.base import Shape
from bertscope_service.errors import InvalidArgument

SHAPE = Shape("bert", 3, 2, 8, 100, 16, 1000)
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
    return parse_sweep(request, query, SHAPE, "models/m", MEMORY)


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
