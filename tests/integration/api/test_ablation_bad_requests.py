"""What AblationService can't answer is refused with the field and a remedy, and the next good request is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import common_pb2 as common

from tests.support.harness import CALL_SECONDS, Failure, Host, refused
from tests.support.sweeps import (
    MEAN,
    SCALE,
    UNIFORM,
    ZERO,
    Request,
    cloze_prompts,
    divergence,
    head_set,
    label_sets,
    labelled,
    masked_lm,
    minimal_pairs,
    rank,
    sweep,
    text_input,
)

INVALID, UNIMPLEMENTED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED
Bootstrap, Greedy, Objective = ablation.Bootstrap, ablation.Greedy, ablation.Objective
LONG = "the cat " * 60
PROMPT = "The [MASK] sat."
LABEL = "objective.classification.texts[0]"
Row = tuple[str, str, dict[str, Any]]
"""The field, the reason, and the fields of the request."""


def check(failure: Failure, field: str, reason: str, words: str = "") -> None:
    assert failure.fields == [field]
    assert failure.info.reason == reason
    assert words in failure.message
    assert "\n" not in failure.message


def empty_label() -> Objective:
    return Objective(classification=ablation.LabelledTexts(texts=[ablation.LabelledText(input=text_input("The cat."))]))


def inputs(*texts: common.TextInput) -> Objective:
    return Objective(divergence=ablation.Divergence(inputs=texts))


# What SweepHeads and RankHeads refuse alike: objectives, interventions, reference texts.
BAD_OBJECTIVES: dict[str, Row] = {
    "no objective": ("objective", "OBJECTIVE_MISSING", {}),
    "empty objective": ("objective", "OBJECTIVE_MISSING", {"objective": Objective()}),
    "only truncate": ("objective", "OBJECTIVE_MISSING", {"objective": Objective(truncate=True)}),
    "text without a word": (
        "objective.masked_lm_loss.texts[1]",
        "NO_WORD",
        {"objective": masked_lm(["The cat.", "\u200b\u0301"])},
    ),
    "text of masks": ("objective.masked_lm_loss.texts[0]", "NO_WORD", {"objective": masked_lm(["[MASK] [MASK]"])}),
    "text too long": ("objective.masked_lm_loss.texts[1]", "TEXT_TOO_LONG", {"objective": masked_lm(["The cat.", LONG])}),
    "prompt without mask": (
        "objective.cloze.prompts[1].text",
        "NO_MASK",
        {"objective": cloze_prompts([(PROMPT, ["cat"]), ("The cat sat.", ["cat"])])},
    ),
    "prompt with two masks": (
        "objective.cloze.prompts[0].text",
        "SEVERAL_MASKS",
        {"objective": cloze_prompts([("[MASK] [MASK]", ["cat"])])},
    ),
    "prompt too long": (
        "objective.cloze.prompts[0].text",
        "TEXT_TOO_LONG",
        {"objective": cloze_prompts([(PROMPT + LONG, ["cat"])])},
    ),
    "answers of several pieces": (
        "objective.cloze.prompts[1].answers",
        "NO_SINGLE_PIECE_ANSWER",
        {"objective": cloze_prompts([(PROMPT, ["cat"]), (PROMPT, ["unplayable", "cat dog"])])},
    ),
    "answers that can't be written": (
        "objective.cloze.prompts[0].answers",
        "NO_SINGLE_PIECE_ANSWER",
        {"objective": cloze_prompts([(PROMPT, ["🦖"])])},
    ),
    "all left out": (
        "objective.cloze.prompts",
        "ALL_SKIPPED",
        {"objective": cloze_prompts([(PROMPT, ["unplayable"])] * 2, skip_multi_piece=True)},
    ),
    "no label": (f"{LABEL}.label", "LABEL_MISSING", {"objective": empty_label()}),
    "label number": (f"{LABEL}.label_index", "LABEL_OUT_OF_RANGE", {"objective": labelled([("a", None, 3)])}),
    "largest label number": (f"{LABEL}.label_index", "LABEL_OUT_OF_RANGE", {"objective": labelled([("a", None, 2**32 - 1)])}),
    "label name": (f"{LABEL}.label", "UNKNOWN_LABEL", {"objective": labelled([("a", None, "Positive")])}),
    "empty label name": (f"{LABEL}.label", "UNKNOWN_LABEL", {"objective": labelled([("a", None, "")])}),
    "labelled text without a token": (
        f"{LABEL}.input.text",
        "EMPTY_TEXT",
        {"objective": labelled([("\u200b\u0301", None, 0)])},
    ),
    "labelled pair too long": (f"{LABEL}.input", "TEXT_TOO_LONG", {"objective": labelled([("a", LONG, 0)])}),
    "layer of an intervention": (
        "interventions[0].layer",
        "LAYER_OUT_OF_RANGE",
        {"interventions": [{"layer": 4, "mode": ZERO}]},
    ),
    "heads changed twice": (
        "interventions[1]",
        "DUPLICATE_INTERVENTION",
        {"interventions": [{"layer": 1, "mode": ZERO}, {"layer": 1, "heads": [2], "mode": UNIFORM}]},
    ),
    "reference texts missing": ("reference_texts", "REFERENCE_TEXTS_MISSING", {"interventions": [{"mode": MEAN}]}),
    "reference texts for nothing": ("reference_texts", "REFERENCE_TEXTS_UNUSED", {"reference_texts": ["The cat."]}),
    "reference text too long": (
        "reference_texts[1]",
        "TEXT_TOO_LONG",
        {"interventions": [{"mode": MEAN}], "reference_texts": ["a", LONG]},
    ),
}
BAD_SWEEPS: dict[str, Row] = {
    "sentence without a token": (
        "objective.minimal_pairs.pairs[0].bad",
        "EMPTY_TEXT",
        {"objective": minimal_pairs([("The cat.", "\u200b\u0301")])},
    ),
    "sentence too long": (
        "objective.minimal_pairs.pairs[0].bad",
        "TEXT_TOO_LONG",
        {"objective": minimal_pairs([("The cat.", LONG)])},
    ),
    "input without mask": ("objective.divergence.inputs[1]", "NO_MASK", {"objective": divergence(["[MASK]", "The cat."])}),
    "input too long": ("objective.divergence.inputs[0]", "TEXT_TOO_LONG", {"objective": divergence([PROMPT + LONG])}),
    "mask cut away": (
        "objective.divergence.inputs[0]",
        "MASK_TRUNCATED",
        {"objective": Objective(divergence=divergence([LONG + PROMPT]).divergence, truncate=True)},
    ),
    "no scale": ("scale", "SCALE_MISSING", {"mode": SCALE}),
    "scale without its mode": ("scale", "SCALE_UNUSED", {"scale": 1.0}),
    "mean without texts": ("reference_texts", "REFERENCE_TEXTS_MISSING", {"mode": MEAN}),
    "scope with sets": ("scope", "SCOPE_WITH_SETS", {"scope": Request.SCOPE_EVERY_HEAD, "sets": [head_set(((0, (1,)),))]}),
    "layer of a set": ("sets[0].layers[1].layer", "LAYER_OUT_OF_RANGE", {"sets": [head_set(((0, ()), (4, ())))]}),
    "head of a set": ("sets[0].layers[0].heads[1]", "HEAD_OUT_OF_RANGE", {"sets": [head_set(((0, (3, 4)),))]}),
    "head twice": ("sets[0].layers[0].heads[1]", "DUPLICATE", {"sets": [head_set(((0, (3, 3)),))]}),
    "layer twice": ("sets[0].layers[1].layer", "DUPLICATE", {"sets": [head_set(((2, (1,)), (2, (0,))))]}),
    "set twice": ("sets[2]", "DUPLICATE", {"sets": [head_set(((1, (1, 2)),)), head_set(((2, ()),)), head_set(((1, (2, 1)),))]}),
    "all heads and none named": ("sets[1]", "DUPLICATE", {"sets": [head_set(((1, (0, 1, 2, 3)),)), head_set(((1, ()),))]}),
    "no memory": ("memory_bytes", "MEMORY_OUT_OF_RANGE", {"memory_bytes": 0}),
    "more memory than there is": ("memory_bytes", "MEMORY_OUT_OF_RANGE", {"memory_bytes": 512 * 1024 * 1024 + 1}),
    # [CLS] the [MASK] sat . [SEP], 32 numbers each, twice, and one more time.
    "too little memory": ("memory_bytes", "MEMORY_TOO_SMALL", {"memory_bytes": 13 * 32 * 4 - 1}),
    "too little memory for a curve": ("memory_bytes", "MEMORY_TOO_SMALL", {"memory_bytes": 1, "greedy": Greedy()}),
    "importance of an objective without a loss": (
        "greedy.order",
        "OBJECTIVE_WITHOUT_LOSS",
        {"greedy": Greedy(order=Greedy.ORDER_IMPORTANCE)},
    ),
    "step": ("greedy.step", "STEP_OUT_OF_RANGE", {"greedy": Greedy(step=17)}),
    "step of sets": ("greedy.step", "STEP_OUT_OF_RANGE", {"greedy": Greedy(step=2), "sets": [head_set(((0, ()),))]}),
    "removed": ("greedy.max_removed", "MAX_REMOVED_OUT_OF_RANGE", {"greedy": Greedy(max_removed=2**32 - 1)}),
    "metric of another objective": ("greedy.metric", "UNKNOWN_METRIC", {"greedy": Greedy(metric=ablation.METRIC_LOSS)}),
    "metric": ("greedy.metric", "UNKNOWN_METRIC", {"greedy": Greedy(metric=99)}),
}


def objective_for(fields: dict[str, Any], usual: Objective) -> dict[str, Any]:
    """The fields with interventions written out, an objective if they are about something else, and a model that has what it
    needs."""
    given = dict(fields)
    if "interventions" in given:
        given["interventions"] = [common.HeadIntervention(**entry) for entry in given["interventions"]]
    if not any(name in given for name in ("objective", "absent")):
        given["objective"] = usual
    sorts = given.get("objective", usual).WhichOneof("kind") == "classification"
    return given | {"model": "models/sorter" if sorts else "models/bert"}


@pytest.mark.parametrize("ask", [sweep, rank])
@pytest.mark.parametrize(("field", "reason", "fields"), BAD_OBJECTIVES.values(), ids=BAD_OBJECTIVES)
def test_objectives_and_interventions(
    lab: Host, ask: Callable[..., Any], field: str, reason: str, fields: dict[str, Any]
) -> None:
    usual = masked_lm(["The cat sat."])
    given = {"model": "models/bert"} if reason == "OBJECTIVE_MISSING" and not fields else objective_for(fields, usual)
    with refused(INVALID) as failures:
        ask(lab, **given)
    check(failures[0], field, reason)


@pytest.mark.parametrize(("field", "reason", "fields"), BAD_SWEEPS.values(), ids=BAD_SWEEPS)
def test_sweeps(lab: Host, field: str, reason: str, fields: dict[str, Any]) -> None:
    received = []
    with refused(INVALID) as failures:
        given = {"mode": ZERO} | objective_for(fields, divergence([PROMPT]))
        received.extend(lab.ablation.SweepHeads(Request(**given), timeout=CALL_SECONDS))
    check(failures[0], field, reason)
    assert not received, "a request that is refused is refused at once"


MISSING: dict[str, tuple[str, str, Objective]] = {
    "no masked-LM head for prompts": ("headless", "NO_MASKED_LM_HEAD", cloze_prompts()),
    "no head at all": ("headless", "NO_MASKED_LM_HEAD", divergence()),
    "a classifier for pairs": ("distilled", "NO_MASKED_LM_HEAD", minimal_pairs()),
    "a masked-LM for labels": ("bert", "NO_CLASSIFICATION_HEAD", labelled()),
    "values for a divergence": ("rater", "NO_DISTRIBUTION", divergence()),
    "answers for a divergence": ("answerer", "NO_DISTRIBUTION", divergence()),
    "a masked-LM for sets": ("bert", "NO_MULTI_LABEL_HEAD", label_sets()),
}


@pytest.mark.parametrize(("name", "reason", "objective"), MISSING.values(), ids=MISSING)
def test_models_without_the_head(lab: Host, name: str, reason: str, objective: Objective) -> None:
    asks: list[Callable[..., Any]] = [sweep]
    if objective.WhichOneof("kind") not in ("minimal_pairs", "divergence"):
        asks.append(rank)
    for ask in asks:
        with refused(UNIMPLEMENTED) as failures:
            ask(lab, model=f"models/{name}", objective=objective)
        assert failures[0].info.reason == reason
        assert failures[0].info.metadata["model"] == f"models/{name}"
        remedy = "set the objective to" if reason == "NO_DISTRIBUTION" else "load one that has"
        assert remedy in failures[0].message


def test_pairs_of_too_much_work(lab: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertscope_service.analyses.objectives.minimal_pairs.MAX_ROW_TOKENS", 100)
    assert sweep(lab, objective=minimal_pairs([("The cat.", "Cat the.")])).start.items == 1
    with refused(INVALID) as failures:
        sweep(lab, objective=minimal_pairs([("The cat.", "Cat the.")] * 4))
    check(failures[0], "objective.minimal_pairs.pairs", "TOO_MUCH_WORK", "send fewer or shorter ones")


def test_limits_come_from_the_settings(launch: Callable[..., Host]) -> None:
    small = launch(max_text_characters=30, sweep_memory_bytes=5000)
    assert sweep(small, objective=divergence([PROMPT])).start.items == 1
    with refused(INVALID) as failures:
        sweep(small, objective=divergence([PROMPT + "x" * 30]))
    assert "takes 30" in failures[0].message
    with refused(INVALID) as failures:
        sweep(small, objective=divergence([PROMPT]), memory_bytes=5001)
    check(failures[0], "memory_bytes", "MEMORY_OUT_OF_RANGE", "allows 1 to 5000")
    assert sweep(small, objective=divergence([PROMPT]), memory_bytes=5000).start.items == 1


def test_a_flood_of_empty_messages(lab: Host) -> None:
    for field in (b"\x22\x00", b"\x42\x00"):  # sets, interventions
        with refused(INVALID):
            lab.raw_stream("AblationService/SweepHeads", masked_lm_bytes() + field * 1_000_000)
    with refused(INVALID):
        lab.raw("AblationService/PruneHeads", b"\x1a\x00" * 1_000_000)


def masked_lm_bytes() -> bytes:
    return Request(objective=masked_lm(["The cat."]), mode=ZERO).SerializeToString()
