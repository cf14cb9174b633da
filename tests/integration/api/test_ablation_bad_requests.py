"""What AblationService can't answer is refused with the field and a remedy, and the next good request is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
NAN = float("nan")
LONG = "the cat " * 60
MANY = 10_001
PROMPT = "The [MASK] sat."
LABEL = "objective.classification.texts[0]"
Row = tuple[str, str, str, dict[str, Any]]
"""The field, the reason, words of the message, and the fields of the request."""


@pytest.fixture(scope="module", autouse=True)
def next_request_is_answered(lab: Host, check_alive: Callable[[Host], None]) -> Iterator[None]:
    yield
    check_alive(lab)


def check(failure: Failure, field: str, reason: str, words: str) -> None:
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
    "no objective": ("objective", "OBJECTIVE_MISSING", "set one of masked_lm_loss", {}),
    "empty objective": ("objective", "OBJECTIVE_MISSING", "set one of masked_lm_loss", {"objective": Objective()}),
    "only truncate": ("objective", "OBJECTIVE_MISSING", "set one of", {"objective": Objective(truncate=True)}),
    "no texts": ("objective.masked_lm_loss.texts", "NO_ITEM", "give at least one", {"objective": masked_lm([])}),
    "no prompts": ("objective.cloze.prompts", "NO_ITEM", "give at least one", {"objective": cloze_prompts([])}),
    "no labelled texts": ("objective.classification.texts", "NO_ITEM", "give at least one", {"objective": labelled([])}),
    "too many texts": (
        "objective.masked_lm_loss.texts",
        "TOO_MANY_ITEMS",
        "one call takes 10000; leave some out",
        {"objective": masked_lm(["a"] * MANY)},
    ),
    "too many prompts": (
        "objective.cloze.prompts",
        "TOO_MANY_ITEMS",
        "10000",
        {"objective": cloze_prompts([(PROMPT, ["cat"])] * MANY)},
    ),
    "too many labelled texts": (
        "objective.classification.texts",
        "TOO_MANY_ITEMS",
        "10000",
        {"objective": labelled([("a", None, 0)] * MANY)},
    ),
    "empty text": (
        "objective.masked_lm_loss.texts[1]",
        "EMPTY_TEXT",
        "write some text",
        {"objective": masked_lm(["The cat.", " \t"])},
    ),
    "text too large": (
        "objective.masked_lm_loss.texts[0]",
        "TEXT_TOO_LARGE",
        "shorten it",
        {"objective": masked_lm(["x" * 100_001])},
    ),
    "text without a word": (
        "objective.masked_lm_loss.texts[1]",
        "NO_WORD",
        "leave it out",
        {"objective": masked_lm(["The cat.", "\u200b\u0301"])},
    ),
    "text of masks": ("objective.masked_lm_loss.texts[0]", "NO_WORD", "", {"objective": masked_lm(["[MASK] [MASK]"])}),
    "text too long": (
        "objective.masked_lm_loss.texts[1]",
        "TEXT_TOO_LONG",
        "truncate",
        {"objective": masked_lm(["The cat.", LONG])},
    ),
    "no share": (
        "objective.masked_lm_loss.mask_share",
        "MASK_SHARE_OUT_OF_RANGE",
        "over 0, at most 1",
        {"objective": masked_lm(["The cat."], mask_share=0)},
    ),
    "share over 1": (
        "objective.masked_lm_loss.mask_share",
        "MASK_SHARE_OUT_OF_RANGE",
        "over 0",
        {"objective": masked_lm(["The cat."], mask_share=1.01)},
    ),
    "share that is no number": (
        "objective.masked_lm_loss.mask_share",
        "MASK_SHARE_OUT_OF_RANGE",
        "over 0",
        {"objective": masked_lm(["The cat."], mask_share=NAN)},
    ),
    "prompt without mask": (
        "objective.cloze.prompts[1].text",
        "NO_MASK",
        "write [MASK]",
        {"objective": cloze_prompts([(PROMPT, ["cat"]), ("The cat sat.", ["cat"])])},
    ),
    "prompt with two masks": (
        "objective.cloze.prompts[0].text",
        "SEVERAL_MASKS",
        "leave one",
        {"objective": cloze_prompts([("[MASK] [MASK]", ["cat"])])},
    ),
    "prompt too long": (
        "objective.cloze.prompts[0].text",
        "TEXT_TOO_LONG",
        "truncate",
        {"objective": cloze_prompts([(PROMPT + LONG, ["cat"])])},
    ),
    "empty prompt": ("objective.cloze.prompts[0].text", "EMPTY_TEXT", "", {"objective": cloze_prompts([("", ["cat"])])}),
    "no answer": (
        "objective.cloze.prompts[0].answers",
        "ANSWERS_OUT_OF_RANGE",
        "give 1 to 1000",
        {"objective": cloze_prompts([(PROMPT, [])])},
    ),
    "too many answers": (
        "objective.cloze.prompts[0].answers",
        "ANSWERS_OUT_OF_RANGE",
        "give 1 to 1000",
        {"objective": cloze_prompts([(PROMPT, [str(n) for n in range(1001)])])},
    ),
    "empty answer": (
        "objective.cloze.prompts[0].answers[1]",
        "EMPTY_TEXT",
        "",
        {"objective": cloze_prompts([(PROMPT, ["cat", " "])])},
    ),
    "answer too large": (
        "objective.cloze.prompts[0].answers[0]",
        "ANSWER_TOO_LARGE",
        "may have 1000",
        {"objective": cloze_prompts([(PROMPT, ["x" * 1001])])},
    ),
    "answers of several pieces": (
        "objective.cloze.prompts[1].answers",
        "NO_SINGLE_PIECE_ANSWER",
        "skip_multi_piece",
        {"objective": cloze_prompts([(PROMPT, ["cat"]), (PROMPT, ["unplayable", "cat dog"])])},
    ),
    "answers that can't be written": (
        "objective.cloze.prompts[0].answers",
        "NO_SINGLE_PIECE_ANSWER",
        "give another answer",
        {"objective": cloze_prompts([(PROMPT, ["🦖"])])},
    ),
    "all left out": (
        "objective.cloze.prompts",
        "ALL_SKIPPED",
        "give other answers",
        {"objective": cloze_prompts([(PROMPT, ["unplayable"])] * 2, skip_multi_piece=True)},
    ),
    "no label": (f"{LABEL}.label", "LABEL_MISSING", "set label or label_index", {"objective": empty_label()}),
    "label number": (
        f"{LABEL}.label_index",
        "LABEL_OUT_OF_RANGE",
        "has labels 0 to 2",
        {"objective": labelled([("a", None, 3)])},
    ),
    "largest label number": (
        f"{LABEL}.label_index",
        "LABEL_OUT_OF_RANGE",
        "has labels 0 to 2",
        {"objective": labelled([("a", None, 2**32 - 1)])},
    ),
    "label name": (
        f"{LABEL}.label",
        "UNKNOWN_LABEL",
        "negative, positive, neutral",
        {"objective": labelled([("a", None, "Positive")])},
    ),
    "empty label name": (f"{LABEL}.label", "UNKNOWN_LABEL", "use one of these", {"objective": labelled([("a", None, "")])}),
    "empty labelled text": (f"{LABEL}.input.text", "EMPTY_TEXT", "", {"objective": labelled([("", None, 0)])}),
    "empty second text": (f"{LABEL}.input.text_pair", "EMPTY_TEXT", "", {"objective": labelled([("a", "", 0)])}),
    "labelled text without a token": (
        f"{LABEL}.input.text",
        "EMPTY_TEXT",
        "write some text",
        {"objective": labelled([("\u200b\u0301", None, 0)])},
    ),
    "labelled pair too long": (f"{LABEL}.input", "TEXT_TOO_LONG", "truncate", {"objective": labelled([("a", LONG, 0)])}),
    "intervention": ("interventions[0].mode", "UNKNOWN_MODE", "set MODE_ZERO", {"interventions": [{"layer": 1}]}),
    "layer of an intervention": (
        "interventions[0].layer",
        "LAYER_OUT_OF_RANGE",
        "has layers 0 to 3",
        {"interventions": [{"layer": 4, "mode": ZERO}]},
    ),
    "heads changed twice": (
        "interventions[1]",
        "DUPLICATE_INTERVENTION",
        "name each head once",
        {"interventions": [{"layer": 1, "mode": ZERO}, {"layer": 1, "heads": [2], "mode": UNIFORM}]},
    ),
    "scale that is no number": (
        "interventions[0].scale",
        "SCALE_OUT_OF_RANGE",
        "from -1000 to 1000",
        {"interventions": [{"mode": SCALE, "scale": NAN}]},
    ),
    "reference texts missing": (
        "reference_texts",
        "REFERENCE_TEXTS_MISSING",
        "give texts",
        {"interventions": [{"mode": MEAN}]},
    ),
    "reference texts for nothing": (
        "reference_texts",
        "REFERENCE_TEXTS_UNUSED",
        "leave it out",
        {"reference_texts": ["The cat."]},
    ),
    "too many reference texts": (
        "reference_texts",
        "TOO_MANY_ITEMS",
        "10000",
        {"interventions": [{"mode": MEAN}], "reference_texts": ["a"] * MANY},
    ),
    "empty reference text": (
        "reference_texts[1]",
        "EMPTY_TEXT",
        "",
        {"interventions": [{"mode": MEAN}], "reference_texts": ["a", ""]},
    ),
    "reference text too long": (
        "reference_texts[1]",
        "TEXT_TOO_LONG",
        "",
        {"interventions": [{"mode": MEAN}], "reference_texts": ["a", LONG]},
    ),
}
BAD_SWEEPS: dict[str, Row] = {
    "no pairs": ("objective.minimal_pairs.pairs", "NO_ITEM", "give at least one", {"objective": minimal_pairs([])}),
    "too many pairs": (
        "objective.minimal_pairs.pairs",
        "TOO_MANY_ITEMS",
        "10000",
        {"objective": minimal_pairs([("a", "b")] * MANY)},
    ),
    "no good sentence": (
        "objective.minimal_pairs.pairs[0].good",
        "EMPTY_TEXT",
        "",
        {"objective": minimal_pairs([("", "The cat.")])},
    ),
    "no bad sentence": (
        "objective.minimal_pairs.pairs[1].bad",
        "EMPTY_TEXT",
        "",
        {"objective": minimal_pairs([("The cat.", "Cat the."), ("The cat.", "")])},
    ),
    "sentence without a token": (
        "objective.minimal_pairs.pairs[0].bad",
        "EMPTY_TEXT",
        "write some text",
        {"objective": minimal_pairs([("The cat.", "\u200b\u0301")])},
    ),
    "sentence too long": (
        "objective.minimal_pairs.pairs[0].bad",
        "TEXT_TOO_LONG",
        "truncate",
        {"objective": minimal_pairs([("The cat.", LONG)])},
    ),
    "scoring": (
        "objective.minimal_pairs.scoring",
        "UNKNOWN_SCORING",
        "set one that PseudoLogLikelihood names",
        {"objective": minimal_pairs(scoring=99)},
    ),
    "no inputs": ("objective.divergence.inputs", "NO_ITEM", "give at least one", {"objective": divergence([])}),
    "too many inputs": (
        "objective.divergence.inputs",
        "TOO_MANY_ITEMS",
        "10000",
        {"objective": divergence(["[MASK]"] * MANY)},
    ),
    "input without mask": (
        "objective.divergence.inputs[1]",
        "NO_MASK",
        "write [MASK]",
        {"objective": divergence(["[MASK]", "The cat."])},
    ),
    "input too long": (
        "objective.divergence.inputs[0]",
        "TEXT_TOO_LONG",
        "truncate",
        {"objective": divergence([PROMPT + LONG])},
    ),
    "mask cut away": (
        "objective.divergence.inputs[0]",
        "MASK_TRUNCATED",
        "move the mask forward",
        {"objective": Objective(divergence=divergence([LONG + PROMPT]).divergence, truncate=True)},
    ),
    "empty second input": (
        "objective.divergence.inputs[0].text_pair",
        "EMPTY_TEXT",
        "leave it out",
        {"objective": inputs(text_input("[MASK]", ""))},
    ),
    "no mode": ("mode", "UNKNOWN_MODE", "set MODE_ZERO", {"mode": 0}),
    "unknown mode": ("mode", "UNKNOWN_MODE", "set MODE_ZERO", {"mode": 99}),
    "no scale": ("scale", "SCALE_MISSING", "needs a factor", {"mode": SCALE}),
    "scale without its mode": ("scale", "SCALE_UNUSED", "leave it out", {"scale": 1.0}),
    "scale that is no number": ("scale", "SCALE_OUT_OF_RANGE", "from -1000 to 1000", {"mode": SCALE, "scale": NAN}),
    "huge scale": ("scale", "SCALE_OUT_OF_RANGE", "from -1000 to 1000", {"mode": SCALE, "scale": -1000.5}),
    "mean without texts": ("reference_texts", "REFERENCE_TEXTS_MISSING", "give texts", {"mode": MEAN}),
    "scope": ("scope", "UNKNOWN_SCOPE", "set SCOPE_EVERY_HEAD", {"scope": 9}),
    "negative scope": ("scope", "UNKNOWN_SCOPE", "set SCOPE_EVERY_HEAD", {"scope": -1}),
    "scope with sets": (
        "scope",
        "SCOPE_WITH_SETS",
        "set one of them",
        {"scope": Request.SCOPE_EVERY_HEAD, "sets": [head_set(((0, (1,)),))]},
    ),
    "empty set": (
        "sets[1].layers",
        "EMPTY_SET",
        "name at least one layer",
        {"sets": [head_set(((0, (1,)),)), head_set(())]},
    ),
    "layer of a set": ("sets[0].layers[1].layer", "LAYER_OUT_OF_RANGE", "0 to 3", {"sets": [head_set(((0, ()), (4, ())))]}),
    "head of a set": ("sets[0].layers[0].heads[1]", "HEAD_OUT_OF_RANGE", "0 to 3", {"sets": [head_set(((0, (3, 4)),))]}),
    "head twice": ("sets[0].layers[0].heads[1]", "DUPLICATE", "list each once", {"sets": [head_set(((0, (3, 3)),))]}),
    "layer twice": ("sets[0].layers[1].layer", "DUPLICATE", "list each once", {"sets": [head_set(((2, (1,)), (2, (0,))))]}),
    "set twice": (
        "sets[2]",
        "DUPLICATE",
        "list each set once",
        {"sets": [head_set(((1, (1, 2)),)), head_set(((2, ()),)), head_set(((1, (2, 1)),))]},
    ),
    "all heads and none named": (
        "sets[1]",
        "DUPLICATE",
        "same heads as sets[0]",
        {"sets": [head_set(((1, (0, 1, 2, 3)),)), head_set(((1, ()),))]},
    ),
    "too many sets": (
        "sets",
        "TOO_MANY_SETS",
        "one call takes 10000",
        {"sets": [head_set(((0, (1,)),))] * MANY},
    ),
    "no resamples": ("bootstrap.resamples", "RESAMPLES_OUT_OF_RANGE", "use 100 to", {"bootstrap": Bootstrap(resamples=0)}),
    "few resamples": ("bootstrap.resamples", "RESAMPLES_OUT_OF_RANGE", "use 100 to", {"bootstrap": Bootstrap(resamples=99)}),
    "many resamples": (
        "bootstrap.resamples",
        "RESAMPLES_OUT_OF_RANGE",
        "100000",
        {"bootstrap": Bootstrap(resamples=100_001)},
    ),
    "no confidence": (
        "bootstrap.confidence",
        "CONFIDENCE_OUT_OF_RANGE",
        "0.5 to 0.999",
        {"bootstrap": Bootstrap(confidence=0)},
    ),
    "sure": ("bootstrap.confidence", "CONFIDENCE_OUT_OF_RANGE", "0.5 to 0.999", {"bootstrap": Bootstrap(confidence=1)}),
    "confidence that is no number": (
        "bootstrap.confidence",
        "CONFIDENCE_OUT_OF_RANGE",
        "0.5 to 0.999",
        {"bootstrap": Bootstrap(confidence=NAN)},
    ),
    "no memory": ("memory_bytes", "MEMORY_OUT_OF_RANGE", "leave it out", {"memory_bytes": 0}),
    "more memory than there is": (
        "memory_bytes",
        "MEMORY_OUT_OF_RANGE",
        f"allows 1 to {512 * 1024 * 1024}",
        {"memory_bytes": 512 * 1024 * 1024 + 1},
    ),
    # [CLS] the [MASK] sat . [SEP], 32 numbers each, twice, and one more time.
    "too little memory": (
        "memory_bytes",
        "MEMORY_TOO_SMALL",
        f"take {13 * 32 * 4}; allow at least",
        {"memory_bytes": 13 * 32 * 4 - 1},
    ),
    "too little memory for a curve": (
        "memory_bytes",
        "MEMORY_TOO_SMALL",
        "allow at least",
        {"memory_bytes": 1, "greedy": Greedy()},
    ),
    "order": ("greedy.order", "UNKNOWN_ORDER", "set ORDER_EFFECT", {"greedy": Greedy(order=9)}),
    "importance of an objective without a loss": (
        "greedy.order",
        "OBJECTIVE_WITHOUT_LOSS",
        "set ORDER_EFFECT or ORDER_BEST_REMAINING",
        {"greedy": Greedy(order=Greedy.ORDER_IMPORTANCE)},
    ),
    "step": ("greedy.step", "STEP_OUT_OF_RANGE", "use 1 to 16", {"greedy": Greedy(step=17)}),
    "step of sets": (
        "greedy.step",
        "STEP_OUT_OF_RANGE",
        "use 1 to 1",
        {"greedy": Greedy(step=2), "sets": [head_set(((0, ()),))]},
    ),
    "removed": ("greedy.max_removed", "MAX_REMOVED_OUT_OF_RANGE", "use 1 to 16", {"greedy": Greedy(max_removed=2**32 - 1)}),
    "metric of another objective": (
        "greedy.metric",
        "UNKNOWN_METRIC",
        "set one of METRIC_DIVERGENCE",
        {"greedy": Greedy(metric=ablation.METRIC_LOSS)},
    ),
    "metric": ("greedy.metric", "UNKNOWN_METRIC", "set one of", {"greedy": Greedy(metric=99)}),
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
@pytest.mark.parametrize(("field", "reason", "words", "fields"), BAD_OBJECTIVES.values(), ids=BAD_OBJECTIVES)
def test_objectives_and_interventions(
    lab: Host, ask: Callable[..., Any], field: str, reason: str, words: str, fields: dict[str, Any]
) -> None:
    usual = masked_lm(["The cat sat."])
    given = {"model": "models/bert"} if reason == "OBJECTIVE_MISSING" and not fields else objective_for(fields, usual)
    with refused(INVALID) as failures:
        ask(lab, **given)
    check(failures[0], field, reason, words)


@pytest.mark.parametrize(("field", "reason", "words", "fields"), BAD_SWEEPS.values(), ids=BAD_SWEEPS)
def test_sweeps(lab: Host, field: str, reason: str, words: str, fields: dict[str, Any]) -> None:
    received = []
    with refused(INVALID) as failures:
        given = {"mode": ZERO} | objective_for(fields, divergence([PROMPT]))
        received.extend(lab.ablation.SweepHeads(Request(**given), timeout=CALL_SECONDS))
    check(failures[0], field, reason, words)
    assert not received, "a request that is refused is refused at once"


MISSING: dict[str, tuple[str, str, Objective]] = {
    "no masked-LM head for texts": ("headless", "NO_MASKED_LM_HEAD", masked_lm(["The cat."])),
    "no masked-LM head for prompts": ("headless", "NO_MASKED_LM_HEAD", cloze_prompts()),
    "no masked-LM head for pairs": ("headless", "NO_MASKED_LM_HEAD", minimal_pairs()),
    "no head at all": ("headless", "NO_MASKED_LM_HEAD", divergence()),
    "a classifier for texts": ("sorter", "NO_MASKED_LM_HEAD", masked_lm(["The cat."])),
    "a classifier for prompts": ("sorter", "NO_MASKED_LM_HEAD", cloze_prompts()),
    "a classifier for pairs": ("distilled", "NO_MASKED_LM_HEAD", minimal_pairs()),
    "a masked-LM for labels": ("bert", "NO_CLASSIFICATION_HEAD", labelled()),
    "values for a divergence": ("rater", "NO_DISTRIBUTION", divergence()),
    "answers for a divergence": ("answerer", "NO_DISTRIBUTION", divergence()),
    "one label for sets": ("sorter", "NO_MULTI_LABEL_HEAD", label_sets()),
    "a masked-LM for sets": ("bert", "NO_MULTI_LABEL_HEAD", label_sets()),
    "nothing for labels": ("headless", "NO_CLASSIFICATION_HEAD", labelled()),
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


@pytest.mark.parametrize("ask", [sweep, rank])
def test_unknown_models(lab: Host, ask: Callable[..., Any]) -> None:
    with refused(grpc.StatusCode.NOT_FOUND) as failures:
        ask(lab, model="models/none", objective=masked_lm(["The cat."]))
    assert "models/bert, models/roberta" in failures[0].message


def test_pairs_of_too_much_work(lab: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertscope_service.analyses.objectives.minimal_pairs.MAX_ROW_TOKENS", 100)
    assert sweep(lab, objective=minimal_pairs([("The cat.", "Cat the.")])).start.items == 1
    with refused(INVALID) as failures:
        sweep(lab, objective=minimal_pairs([("The cat.", "Cat the.")] * 4))
    check(failures[0], "objective.minimal_pairs.pairs", "TOO_MUCH_WORK", "send fewer or shorter ones")


@pytest.mark.slow
def test_as_many_items_as_promised_are_taken(lab: Host) -> None:
    # Ten thousand items take seconds on a quiet machine, and much longer on a busy one.
    found = sweep(lab, 5 * CALL_SECONDS, objective=divergence(["[MASK]"] * (MANY - 1)), sets=[head_set(((3, (0,)),))])
    assert found.start.items == MANY - 1


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


MALFORMED = (b"\xff", b"\x12\x05ab", b"\x0a\x02\xff\xfe", b"garbage" * 100)


@pytest.mark.parametrize("data", MALFORMED)
@pytest.mark.parametrize("method", ["SweepHeads", "RankHeads", "PruneHeads"])
def test_bytes_that_are_no_message(lab: Host, method: str, data: bytes) -> None:
    send = lab.raw_stream if method == "SweepHeads" else lab.raw
    with refused(INVALID) as failures:
        send(f"AblationService/{method}", data)
    assert failures[0].info.reason == "MALFORMED_REQUEST"


def test_a_flood_of_empty_messages(lab: Host) -> None:
    for field in (b"\x22\x00", b"\x42\x00"):  # sets, interventions
        with refused(INVALID):
            lab.raw_stream("AblationService/SweepHeads", masked_lm_bytes() + field * 1_000_000)
    with refused(INVALID):
        lab.raw("AblationService/PruneHeads", b"\x1a\x00" * 1_000_000)


def masked_lm_bytes() -> bytes:
    return Request(objective=masked_lm(["The cat."]), mode=ZERO).SerializeToString()
