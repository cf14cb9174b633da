"""SweepHeads and RankHeads through gRPC give what single calls with interventions give."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import representation_states_pb2 as states
from bertscope.values.bootstrap import MIN_ITEMS
from numpy.testing import assert_allclose
from scipy.stats import binomtest

from tests.support.calls import call, get, refusal
from tests.support.harness import Host
from tests.support.sweeps import (
    FACTOR,
    MASKED,
    MEAN,
    PROMPTS,
    REFERENCES,
    SCALE,
    UNIFORM,
    ZERO,
    Changes,
    Heads,
    Measurer,
    Request,
    Sweep,
    changed,
    cloze_prompts,
    divergence,
    head_set,
    heads_of,
    interventions,
    label_sets,
    labelled,
    masked_lm,
    matrix,
    minimal_pairs,
    rank,
    rated,
    similar,
    sweep,
)

LOSS, ACCURACY = ablation.METRIC_LOSS, ablation.METRIC_ACCURACY
PEARSON, SPEARMAN = ablation.METRIC_PEARSON, ablation.METRIC_SPEARMAN
RECIPROCAL_RANK, DIVERGENCE = ablation.METRIC_RECIPROCAL_RANK, ablation.METRIC_DIVERGENCE
LABEL_F1 = ablation.METRIC_LABEL_F1
Greedy = ablation.Greedy
TEXTS = ("The cat sat.", "The unplayable song.", "Berlin is the capital of Germany, isn't it?")
EVERY_WORD = masked_lm(TEXTS, mask_share=1.0)
CASES: dict[str, tuple[str, ablation.Objective, list[int]]] = {
    "masked-lm": ("bert", EVERY_WORD, [LOSS]),
    "masked-lm roberta": ("roberta", EVERY_WORD, [LOSS]),
    "cloze": ("bert", cloze_prompts(), [ACCURACY, RECIPROCAL_RANK, LOSS]),
    "minimal pairs": ("bert", minimal_pairs(), [ACCURACY, ablation.METRIC_SCORE_DIFFERENCE]),
    "labelled": ("sorter", labelled(), [ACCURACY, LOSS]),
    "labelled distilbert": ("distilled", labelled(), [ACCURACY, LOSS]),
    "rated": ("rater", rated(), [PEARSON, SPEARMAN, ablation.METRIC_SQUARED_ERROR]),
    "similar": ("bert", similar(), [PEARSON, SPEARMAN]),
    "similar roberta": ("roberta", similar(pooling=states.STATE_POOLING_MAX), [PEARSON, SPEARMAN]),
    "label sets": ("topics", label_sets(), [LABEL_F1, ACCURACY, LOSS]),
    "divergence of masks": ("bert", divergence(), [DIVERGENCE]),
    "divergence roberta": ("roberta", divergence(), [DIVERGENCE]),
    "divergence of labels": ("sorter", divergence(), [DIVERGENCE]),
    "divergence of words": ("tagger", divergence(), [DIVERGENCE]),
    "divergence of label sets": ("topics", divergence(), [DIVERGENCE]),
}
SETS: tuple[Heads, ...] = (
    ((2, (1, 3)),),
    ((0, (2,)), (3, (0, 1, 2, 3))),
    ((1, (0,)), (2, (0,)), (3, (0,))),
    ((0, (0, 1, 2, 3)), (1, (0, 1, 2, 3)), (2, (0, 1, 2, 3)), (3, (0, 1, 2, 3))),
    ((3, (2,)),),
)
BASE: Changes = {(0, 1): (UNIFORM, 1.0), (2, 3): (SCALE, 0.5), (1, 0): (ZERO, 1.0), (3, 0): (ZERO, 1.0)}
"""Changes that hold in all runs; some of SETS change the same heads again."""

Case = tuple[Measurer, ablation.Objective, list[int]]


def every_head(model: str, lab: Host) -> list[Heads]:
    shape = shape_of(model, lab)
    return [((layer, (head,)),) for layer in range(shape[0]) for head in range(shape[1])]


def shape_of(model: str, lab: Host) -> tuple[int, int]:
    found = get(lab, model)
    return found.layers, found.heads


def sets_of(model: str, lab: Host) -> list[Heads]:
    """SETS without the layers that a model does not have."""
    layers, _ = shape_of(model, lab)
    return [heads for heads in (tuple(part for part in heads if part[0] < layers) for heads in SETS) if heads]


def measurer(lab: Host, name: str, folders: dict[str, Path]) -> Measurer:
    return Measurer(lab, f"models/{name}", folders[name])


@pytest.fixture(scope="module")
def folders(checkpoints: dict[str, Path], sorters: dict[str, Path]) -> dict[str, Path]:
    return checkpoints | sorters


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, lab: Host, folders: dict[str, Path]) -> Case:
    name, objective, metrics = CASES[request.param]
    return measurer(lab, name, folders), objective, metrics


@pytest.fixture
def bert(lab: Host, folders: dict[str, Path]) -> Measurer:
    return measurer(lab, "bert", folders)


def check_scores(found: Sweep, by: Measurer, objective: ablation.Objective, mode: int, base: Changes, every: int = 1) -> None:
    """Scores of a sweep, all or every so many, are what single calls give, and the differences are those from the baseline."""
    factor = FACTOR if mode == SCALE else 1.0
    baseline = by.values(objective, base, base)
    assert_allclose(found.baseline, baseline.mean(axis=1), atol=1e-5)
    assert found.start.items == baseline.shape[1]
    scores = found.scores
    moved = []
    for effect in found.effects[::every]:
        heads = heads_of(effect.heads)
        expected = by.values(objective, changed(base, heads, mode, factor), base)
        assert_allclose(scores[heads], expected.mean(axis=1), atol=1e-5)
        for metric, before, after in zip(effect.metrics, baseline, expected, strict=True):
            assert metric.difference == pytest.approx(metric.score - before.mean(), abs=1e-5)
            if len(before) < MIN_ITEMS:
                assert metric.no_interval == ablation.NO_INTERVAL_TOO_FEW_ITEMS
            assert metric.HasField("low") == metric.HasField("high") == (not metric.no_interval)
            if not metric.no_interval:
                assert metric.low <= metric.difference + 1e-9 and metric.difference <= metric.high + 1e-9
            assert metric.HasField("mcnemar_p") == (metric.metric == ACCURACY)
            if metric.metric == ACCURACY:
                lost, won = int((before > after).sum()), int((before < after).sum())
                p_value = binomtest(lost, lost + won).pvalue if lost + won else 1.0
                assert metric.mcnemar_p == pytest.approx(p_value)
            moved.append(abs(metric.difference))
    assert max(moved) > 1e-3


def test_every_head(lab: Host, case: Case) -> None:
    by, objective, metrics = case
    sets = every_head(by.model, lab)
    found = sweep(lab, model=by.model, objective=objective, mode=ZERO)
    assert [heads_of(effect.heads) for effect in found.effects] == sets
    assert found.start.total == len(sets)
    assert [baseline.metric for baseline in found.start.baseline] == metrics
    assert (found.start.skipped_items, found.start.truncated_texts) == (0, 0)
    # Each score takes many calls: of all heads, those of one model with each objective that needs fewer are checked.
    cheap = by.model in ("models/bert", "models/sorter") and not objective.HasField("minimal_pairs")
    check_scores(found, by, objective, ZERO, {}, every=1 if cheap else shape_of(by.model, lab)[1] + 1)
    provenance = call(lab, "FillMask", texts=MASKED).provenance
    assert found.summary.provenance.model == by.model
    assert found.summary.provenance.library_versions == provenance.library_versions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mode", "base"),
    [
        ("cloze", MEAN, BASE),
        ("labelled distilbert", MEAN, BASE),
        ("divergence roberta", ZERO, BASE),
        ("similar", MEAN, BASE),
        ("divergence of masks", ZERO, {(1, 2): (MEAN, 1.0)}),
    ],
)
def test_given_sets_on_top_of_interventions(lab: Host, folders: dict[str, Path], name: str, mode: int, base: Changes) -> None:
    model, objective, _ = CASES[name]
    by = measurer(lab, model, folders)
    base = {place: what for place, what in base.items() if place[0] < shape_of(by.model, lab)[0]}
    sets = sets_of(by.model, lab)
    more: dict[str, Any] = {"interventions": interventions(base)}
    if MEAN in (mode, *(how for how, _ in base.values())):
        more["reference_texts"] = REFERENCES
    found = sweep(lab, model=by.model, objective=objective, mode=mode, sets=map(head_set, sets), **more)
    # Those that begin at the lowest layer are finished first, those of one layer in the order they were given.
    assert [heads_of(effect.heads) for effect in found.effects] == sorted(sets, key=lambda heads: heads[0][0])
    check_scores(found, by, objective, mode, base)


@pytest.mark.slow
def test_a_set_that_names_a_layer_means_all_of_its_heads(lab: Host, bert: Measurer) -> None:
    objective = divergence()
    by_layer = sweep(lab, model=bert.model, objective=objective, scope=Request.SCOPE_EVERY_LAYER)
    layers, heads = shape_of(bert.model, lab)
    assert [heads_of(effect.heads) for effect in by_layer.effects] == [((n, tuple(range(heads))),) for n in range(layers)]
    check_scores(by_layer, bert, objective, ZERO, {})
    short = [head_set(((layer, ()),)) for layer in reversed(range(layers))]
    same = sweep(lab, model=bert.model, objective=objective, sets=short)
    assert_allclose(same.numbers, by_layer.numbers, atol=1e-5)


def test_heads_of_a_set_come_back_in_order(lab: Host) -> None:
    (effect,) = sweep(lab, objective=divergence(), sets=[head_set(((3, (2, 0)), (1, (3, 1))))]).effects
    assert heads_of(effect.heads) == ((1, (1, 3)), (3, (0, 2)))


def test_the_start_says_what_intervals_are_computed_with(lab: Host) -> None:
    """What the request left open, too: the client has no constants of its own."""
    left_open = sweep(lab, objective=EVERY_WORD, sets=[head_set(SETS[0])]).start
    assert left_open.bootstrap == ablation.Bootstrap(resamples=1000, seed=0, confidence=0.95)
    assert left_open.provenance.weights_digest.startswith("sha256:")
    asked = ablation.Bootstrap(seed=7, confidence=0.999)
    found = sweep(lab, objective=EVERY_WORD, sets=[head_set(SETS[0])], bootstrap=asked).start
    assert found.bootstrap == ablation.Bootstrap(resamples=10_000, seed=7, confidence=0.999)


@pytest.mark.slow
def test_multi_piece_answers_are_counted_and_left_out_when_asked(lab: Host, bert: Measurer) -> None:
    prompts = (PROMPTS[0], ("The [MASK] song.", ("unplayable",)), PROMPTS[1])
    found = sweep(lab, model=bert.model, objective=cloze_prompts(prompts, skip_multi_piece=True))
    assert (found.start.items, found.start.skipped_items, found.start.predicted_pieces) == (2, 1, 2)
    check_scores(found, bert, cloze_prompts((PROMPTS[0], PROMPTS[1])), ZERO, {})
    reply = rank(lab, model=bert.model, objective=cloze_prompts(prompts, skip_multi_piece=True))
    assert (reply.items, reply.skipped_items) == (2, 1)


@pytest.mark.slow
def test_texts_are_cut_when_asked_and_counted(lab: Host, bert: Measurer) -> None:
    long = f"The [MASK] sat.{' the' * 100}"
    objective = cloze_prompts((PROMPTS[0], (long, ("cat",))))
    objective.truncate = True
    found = sweep(lab, model=bert.model, objective=objective, sets=map(head_set, SETS))
    assert found.start.truncated_texts == 1
    cut = cloze_prompts((PROMPTS[0], (f"The [MASK] sat.{' the' * 58}", ("cat",))))
    check_scores(found, bert, cut, ZERO, {})
    for given in (masked_lm([long]), divergence([long]), minimal_pairs([(long, "The cat.")])):
        given.truncate = True
        assert sweep(lab, model=bert.model, objective=given, sets=[head_set(SETS[0])]).start.truncated_texts == 1


def test_labels_by_name_are_labels_by_number(lab: Host) -> None:
    named = labelled([("The cat sat.", None, "positive"), ("A dog.", "A cat.", "neutral"), ("Nobody.", None, "negative")])
    numbered = labelled([("The cat sat.", None, 1), ("A dog.", "A cat.", 2), ("Nobody.", None, 0)])
    found = [sweep(lab, model="models/sorter", objective=objective).numbers for objective in (named, numbered)]
    assert_allclose(found[0], found[1], atol=1e-5)


def test_a_sweep_needs_the_memory_of_its_longest_row(lab: Host) -> None:
    asked = {"mode": ZERO, "objective": cloze_prompts()}
    usual = sweep(lab, **asked)
    needed = int(refusal(lab, "SweepHeads", memory_bytes=1, **asked).info.metadata["needed"])
    small = sweep(lab, memory_bytes=needed, **asked)
    assert_allclose(small.numbers, usual.numbers, atol=1e-5)
    assert small.summary.full_layer_passes == usual.summary.full_layer_passes > usual.summary.layer_passes
    refusal(lab, "SweepHeads", memory_bytes=needed - 1, **asked)


def test_layers_below_a_changed_head_are_run_once(lab: Host) -> None:
    found = sweep(lab, objective=divergence(), sets=[head_set(((3, (head,)),)) for head in range(4)])
    items = len(MASKED)
    # The baseline; the states before layer 3, once; layer 3 for each set.
    assert found.summary.layer_passes == items * (4 + 3 + 4)
    assert found.summary.full_layer_passes == items * (4 + 4 * 4)


def check_curve(found: Sweep, by: Measurer, objective: ablation.Objective) -> list[Heads]:
    """Every point is what single calls give with all heads removed so far. Returns them in their order."""
    removed: list[Heads] = []
    changes: Changes = {}
    assert [metric.score for metric in found.points[0].metrics] == found.baseline
    for number, point in enumerate(found.points):
        removed += map(heads_of, point.added)
        for heads in removed:
            changes = changed(changes, heads, ZERO)
        assert bool(point.added) == (number > 0)
        assert point.share_removed == pytest.approx(len(changes) / 16)
        assert_allclose([metric.score for metric in point.metrics], by.scores(objective, changes), atol=1e-5)
        expected = np.subtract([metric.score for metric in point.metrics], found.baseline)
        assert_allclose([metric.difference for metric in point.metrics], expected, atol=1e-6)
    return removed


@pytest.mark.slow
@pytest.mark.parametrize("metric", [RECIPROCAL_RANK, LOSS])
def test_a_curve_by_effect_removes_the_least_harmful_first(lab: Host, bert: Measurer, metric: int) -> None:
    objective = cloze_prompts()
    which, sign = {RECIPROCAL_RANK: (1, -1), LOSS: (2, 1)}[metric]
    harm = {heads: sign * scores[which] for heads, scores in sweep(lab, objective=objective).scores.items()}
    greedy = Greedy(order=Greedy.ORDER_EFFECT, metric=metric, step=3, max_removed=8)
    found = sweep(lab, objective=objective, greedy=greedy)
    assert [len(point.added) for point in found.points] == [0, 3, 3, 2]
    assert check_curve(found, bert, objective) == sorted(harm, key=lambda heads: harm[heads])[:8]


@pytest.mark.slow
def test_a_curve_by_importance_goes_by_rank_heads(lab: Host, bert: Measurer) -> None:
    importance = matrix(rank(lab, objective=EVERY_WORD).importance)
    sets: list[Heads] = [((0, (0, 1)),), ((1, (2,)), (3, (1, 2))), ((2, (3,)),), ((3, (0,)),), ((0, (3,)), (1, (0,)))]
    greedy = Greedy(order=Greedy.ORDER_IMPORTANCE)
    found = sweep(lab, objective=EVERY_WORD, sets=map(head_set, sets), greedy=greedy)

    def of(heads: Heads) -> float:
        return float(sum(importance[layer, list(numbers)].sum() for layer, numbers in heads))

    assert check_curve(found, bert, EVERY_WORD) == sorted(sets, key=of)


SCALED: Changes = {(0, 1): (SCALE, 0.5), (2, 0): (ZERO, 1.0), (1, 3): (MEAN, 1.0)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "base"), [("masked-lm", SCALED), ("labelled distilbert", {}), ("rated", {}), ("label sets", {})]
)
def test_gradients_are_those_of_scaling_each_head_a_little(
    lab: Host, folders: dict[str, Path], name: str, base: Changes
) -> None:
    model, objective, metrics = CASES[name]
    loss = ablation.METRIC_SQUARED_ERROR if name == "rated" else LOSS
    by, which = measurer(lab, model, folders), metrics.index(loss)
    more = {"reference_texts": REFERENCES, "interventions": interventions(base)} if base else {}
    reply = rank(lab, model=by.model, objective=objective, **more)
    importance, gradient = matrix(reply.importance), matrix(reply.gradient)
    assert importance.shape == gradient.shape == shape_of(by.model, lab)
    assert reply.items == len(by.values(objective, {})[0])
    assert reply.loss == pytest.approx(by.values(objective, base)[which].mean(), abs=1e-5)
    assert reply.provenance.model == by.model
    assert (gradient >= 0).all()
    norms = np.sqrt((gradient**2).sum(axis=1, keepdims=True))
    assert_allclose(importance, gradient / norms, atol=1e-6)
    assert_allclose((importance**2).sum(axis=1), 1, atol=1e-5)
    small = 1e-2
    for layer, head in ((0, 0), (0, 1), (1, 2), (2, 3)):
        mode, keep = base.get((layer, head), (SCALE, 1.0))
        assert mode == SCALE
        ends = [by.values(objective, changed(base, ((layer, (head,)),), SCALE, keep + step))[which] for step in (small, -small)]
        expected = abs((ends[0] - ends[1]) / (2 * small)).mean()
        assert gradient[layer, head] == pytest.approx(expected, rel=0.02, abs=2e-3)
