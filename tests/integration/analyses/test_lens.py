"""The masked-LM head at every layer against transformers' own head on its own hidden states, for every architecture."""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from bertscope_service.analyses import lens
from bertscope_service.analyses.cloze import ClozePlan, ClozeQuery
from bertscope_service.analyses.lens import LensInput, LensPlan, LensQuery
from bertscope_service.analyses.observers.lens import LensScores, Translators
from bertscope_service.analyses.words import Span
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.decomposition import Part, decomposition_of
from bertscope_service.encoders.torch.architectures import PRE_NORM
from bertscope_service.errors import FailedPrecondition, InvalidArgument
from bertscope_service.probing.tuned_lens import LensSize, TranslatorTraining
from bertscope_service.probing.tuned_lens_run import head_of

from tests.support.exports import load_exported
from tests.support.limits import limit_sizes
from tests.support.reference import EDITS, Subject
from tests.support.rounding import BOTH_SIDES
from tests.support.runner import run_rows
from tests.support.subjects import on_three

TEXTS = (
    "Paris is the [MASK] of France.",
    "[MASK] is a city.",
    "The [MASK] sat on the [MASK] in the [MASK], and the old man said that the dog walked.",
)
CANDIDATES = ("a", "i")


def query(subject: Subject, texts: Sequence[str] = TEXTS, layers: Sequence[int] = (), *, normalise: bool = False) -> LensQuery:
    inputs = tuple(LensInput(text, None, ()) for text in texts)
    return LensQuery(
        inputs,
        tuple(layers) or tuple(range(subject.encoder.shape.layers + 1)),
        5,
        CANDIDATES,
        all_pieces=False,
        normalise=normalise,
        truncate=False,
    )


def read(encoder: Encoder, plan: LensPlan, **how: object) -> Sequence[LensScores]:
    return plan.answer(run_rows(encoder, plan.rows, **how))  # type: ignore[arg-type]


def last_norm(subject: Subject) -> torch.nn.LayerNorm:
    """The model's last normalisation, in transformers' own model."""
    named = subject.reference.model.base_model.named_modules()
    norms = [(name, module) for name, module in named if isinstance(module, torch.nn.LayerNorm)]
    return next((module for name, module in norms if name.endswith("full_layer_layer_norm")), norms[-1][1])


@torch.inference_mode()
def expected_logs(subject: Subject, hidden: Sequence[torch.Tensor], *, normalise: bool) -> list[torch.Tensor]:
    """Logarithms of probabilities of transformers' head on each state [length, hidden_size]: float64 [length, vocabulary]."""
    model = subject.reference.model
    base, found = model.base_model, []

    class Fixed(torch.nn.Module):
        """Stands for the body of the model: it gives one state."""

        def forward(self, *_: object, **__: object) -> object:
            return type(output)(last_hidden_state=state[None])

    output = base(torch.zeros((1, 1), dtype=torch.int64))
    for number, state in enumerate(hidden):
        if normalise and number < len(hidden) - 1:
            state = last_norm(subject)(state)
        setattr(model, model.base_model_prefix, Fixed())
        try:
            found.append(model(input_ids=torch.zeros((1, len(state)), dtype=torch.int64)).logits[0].double().log_softmax(-1))
        finally:
            setattr(model, model.base_model_prefix, base)
    return found


@pytest.mark.two_architectures
@pytest.mark.parametrize("normalise", [False, True])
def test_every_layer_is_transformers_head_on_its_own_state(subject: Subject, export_cache: Path, normalise: bool) -> None:
    """By both runtimes, padded and alone."""
    if normalise and subject.architecture == "mobilebert":
        pytest.skip("its layers end without a layer normalisation")
    plan = LensPlan(query(subject, normalise=normalise), subject.tokenizer)
    for encoder in (subject.encoder, load_exported(subject.folder, export_cache)):
        padded, alone = read(encoder, plan), read(encoder, plan, batch=1)
        for text, scores, single in zip(plan.texts, padded, alone, strict=True):
            hidden = [state[0] for state in subject.reference.run([text.tokenized.sequence]).hidden]
            logs = torch.stack(expected_logs(subject, hidden, normalise=normalise))[:, list(text.positions)].transpose(0, 1)
            asked = torch.tensor([[text.pieces[at].id, *ids] for at, ids in zip(text.positions, _ids(text), strict=True)])
            wanted = logs.gather(2, asked[:, None].expand(-1, logs.shape[1], -1))
            np.testing.assert_allclose(scores.asked_logs, wanted, atol=2e-3)
            np.testing.assert_allclose(scores.top_logs, logs.topk(5).values, atol=2e-3)
            np.testing.assert_allclose(scores.top_logs, logs.gather(2, torch.from_numpy(scores.top_ids)), atol=2e-3)
            np.testing.assert_allclose(scores.entropies, -(logs.exp() * logs).sum(-1), atol=2e-3)
            last = logs[:, -1:]
            np.testing.assert_allclose(scores.divergences, (last.exp() * (last - logs)).sum(-1), atol=2e-3)
            assert (scores.divergences[:, -1] == 0).all()
            np.testing.assert_allclose(single.asked_logs, scores.asked_logs, atol=2e-4)
            np.testing.assert_allclose(single.divergences, scores.divergences, atol=2e-4)


@pytest.mark.two_architectures
@on_three
@pytest.mark.parametrize("normalise", [False, True])
def test_maps_come_before_the_head_and_its_normalisation(subject: Subject, export_cache: Path, normalise: bool) -> None:
    """Of transformers' own states, by both runtimes; the last state has no map."""
    shape, generator = subject.encoder.shape, torch.Generator().manual_seed(5)
    size = (shape.hidden_size + 1, shape.hidden_size)
    maps = {layer: torch.randn(size, generator=generator) / shape.hidden_size**0.5 for layer in range(shape.layers)}
    translators = Translators({layer: values.numpy() for layer, values in maps.items()})
    plan = LensPlan(replace(query(subject, normalise=normalise), translators=translators), subject.tokenizer)
    for encoder in (subject.encoder, load_exported(subject.folder, export_cache)):
        for text, scores in zip(plan.texts, read(encoder, plan), strict=True):
            hidden = [state[0] for state in subject.reference.run([text.tokenized.sequence]).hidden]
            moved = [state @ maps[layer][:-1] + maps[layer][-1] for layer, state in enumerate(hidden[:-1])]
            logs = torch.stack(expected_logs(subject, [*moved, hidden[-1]], normalise=normalise))
            logs = logs[:, list(text.positions)].transpose(0, 1)
            np.testing.assert_allclose(scores.top_logs, logs.topk(5).values, atol=2e-3)
            np.testing.assert_allclose(scores.entropies, -(logs.exp() * logs).sum(-1), atol=2e-3)


def _ids(text: object) -> list[list[int]]:
    return [[word.pieces[0] for word in words] for words in text.candidates]  # type: ignore[attr-defined]


def test_the_last_layer_is_what_fills_masks(subject: Subject, export_cache: Path) -> None:
    """To the bit, by both runtimes, in the same batch: under gates as well."""
    plan = LensPlan(query(subject), subject.tokenizer)
    cloze = ClozePlan(ClozeQuery(TEXTS, 5, (), truncate=False), subject.tokenizer)
    for encoder in (subject.encoder, load_exported(subject.folder, export_cache)):
        for gates in (None, subject.gates(EDITS["mixed"])):
            found, filled = run_rows(encoder, plan.rows, gates), run_rows(encoder, cloze.rows, gates)
            for scores, expected in zip(found, filled, strict=True):
                np.testing.assert_array_equal(scores.top_ids[:, -1], expected.top_ids)
                np.testing.assert_array_equal(scores.top_logs[:, -1], expected.top_logs)


@on_three
def test_numbers_are_their_definitions_on_the_same_logits(subject: Subject) -> None:
    """Entropy, divergence and ranks from the logits that the encoder gives, in float64."""
    last = subject.encoder.shape.layers
    plan = LensPlan(query(subject, TEXTS[:1], (last, 1)), subject.tokenizer)
    (scores,) = read(subject.encoder, plan)
    state = subject.encoder.begin([plan.rows[0][0]])
    rows, places = torch.tensor([0]), torch.tensor(plan.texts[0].positions)
    logs = {}
    for layer in (1, last):
        subject.encoder.advance(state, layer)
        logs[layer] = subject.encoder.logits(state, rows, places)[0].double().log_softmax(-1)
    for number, layer in enumerate((last, 1)):
        entropy = -(logs[layer].exp() * logs[layer]).sum()
        assert scores.entropies[0, number] == pytest.approx(float(entropy), abs=1e-5)
        divergence = (logs[last].exp() * (logs[last] - logs[layer])).sum()
        assert scores.divergences[0, number] == pytest.approx(float(divergence), abs=1e-5)
        ids = [plan.texts[0].pieces[places[0]].id, *_ids(plan.texts[0])[0]]
        # Float32 sums in another order move a logit by an ulp or two, so entries closer than that may change places.
        asked = logs[layer][ids, None]
        lowest, highest = (1 + (logs[layer] > asked + gap).sum(-1) for gap in (1e-6, -1e-6))
        ranks = torch.from_numpy(scores.asked_ranks[0, number].astype(np.int64))
        assert ((lowest <= ranks) & (ranks < highest)).all()


@on_three
def test_any_layers_in_any_order_and_small_chunks_change_nothing(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = LensPlan(query(subject), subject.tokenizer)
    whole = read(subject.encoder, plan)
    limit_sizes(monkeypatch, logits_bytes=1)
    some = read(subject.encoder, LensPlan(query(subject, layers=(2, 0)), subject.tokenizer))
    for scores, expected in zip(some, whole, strict=True):
        np.testing.assert_allclose(scores.asked_logs, expected.asked_logs[:, [2, 0]], atol=1e-4)
        np.testing.assert_allclose(scores.divergences, expected.divergences[:, [2, 0]], atol=1e-4)


def test_positions_are_masks_parts_or_all_pieces(subject: Subject) -> None:
    text = "Paris is the [MASK] of France."
    masks = LensPlan(query(subject, [text]), subject.tokenizer).texts[0]
    assert [masks.pieces[at].id for at in masks.positions] == [subject.tokenizer.mask_id]
    everything = LensPlan(replace(query(subject, [text]), all_pieces=True), subject.tokenizer).texts[0]
    assert everything.positions == tuple(range(len(everything.tokenized)))
    glued = LensPlan(replace(query(subject, ["unplayable [MASK]."]), all_pieces=True), subject.tokenizer).texts[0]
    assert len({tuple(one.pieces for one in words) for words in glued.candidates[1:3]}) == 1
    parts = (Span(0, 5, 0), Span(9, 12, 0))
    some = LensPlan(replace(query(subject), inputs=(LensInput(text, None, parts),), all_pieces=True), subject.tokenizer).texts[
        0
    ]
    starts = [some.pieces[at].start for at in some.positions]
    assert starts and all(any(part.start <= start < part.end for part in parts) for start in starts)
    assert {0, 9} <= set(starts)


def test_bad_input_names_the_field(subject: Subject) -> None:
    def problem(asked: LensQuery) -> tuple[str, str]:
        with pytest.raises(InvalidArgument) as caught:
            LensPlan(asked, subject.tokenizer)
        assert "unplayable" not in caught.value.message
        return caught.value.field, caught.value.reason

    assert problem(query(subject, ["A city."])) == ("inputs[0]", "NO_MASK")
    assert problem(replace(query(subject), candidates=("the", "unplayable"))) == ("candidates[1]", "NOT_ONE_PIECE")
    assert problem(replace(query(subject), top_k=200_000)) == ("inputs", "TOO_MANY_PREDICTIONS")
    blank = LensInput("A  [MASK].", None, (Span(1, 3, 0),))
    assert problem(replace(query(subject), inputs=(blank,))) == ("inputs[0].spans[0]", "NO_PIECE")


@pytest.mark.two_architectures
def test_only_models_whose_layers_end_otherwise_have_no_last_normalisation(subject: Subject, export_cache: Path) -> None:
    for encoder in (subject.encoder, load_exported(subject.folder, export_cache)):
        decomposition = decomposition_of(encoder)
        assert decomposition is not None
        assert (decomposition.refusal(Part.LAST) is None) == (subject.architecture != "mobilebert")
        hidden = [torch.randn(2, encoder.shape.hidden_size)]
        if subject.architecture != "mobilebert":
            wanted = last_norm(subject)(hidden[0])
            torch.testing.assert_close(decomposition.normalise_last(hidden[0]), wanted, atol=1e-5, rtol=1e-5)
    assert (subject.architecture in PRE_NORM) == (subject.architecture == "modernbert")


@on_three
def test_scores_that_are_not_finite_are_an_error(subject: Subject) -> None:
    plan = LensPlan(query(subject), subject.tokenizer)
    results = run_rows(subject.encoder, plan.rows)
    results[0].entropies[0, 0] = np.nan
    with pytest.raises(FailedPrecondition, match="not finite"):
        plan.answer(results)


@on_three
def test_a_text_is_read_in_parts(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = replace(query(subject, TEXTS), all_pieces=True)
    whole = read(subject.encoder, LensPlan(asked, subject.tokenizer), batch=1)
    monkeypatch.setattr(lens, "ROW_POSITIONS", 4)
    plan = LensPlan(asked, subject.tokenizer)
    assert max(len(observer.positions) for _, observer in plan.rows) == 4 and len(plan.rows) > len(TEXTS)
    for text, one, other in zip(plan.texts, whole, read(subject.encoder, plan, batch=1), strict=True):
        assert one.asked_ranks.shape == (len(text.positions), subject.encoder.shape.layers + 1, 1 + len(CANDIDATES))
        for field in fields(LensScores):
            np.testing.assert_allclose(getattr(other, field.name), getattr(one, field.name), atol=BOTH_SIDES)


@on_three
@pytest.mark.parametrize("normalise", [False, True])
def test_the_head_can_be_trained_through(subject: Subject, normalise: bool) -> None:
    """With packed weights, as servers have them, too."""
    shape = subject.encoder.shape
    for encoder in (subject.encoder, subject.load(pack=True)):
        size = LensSize(2, shape.hidden_size, shape.vocabulary_size)
        maps = TranslatorTraining(size, head_of(encoder, normalise), torch.device("cpu"), 0.01, patience=4)
        states = torch.randn((16, 3, shape.hidden_size), generator=torch.Generator().manual_seed(1))
        before, _ = maps.evaluate(states, slice(0, 2))
        for _ in range(20):
            maps.accumulate(states, slice(0, 2), len(states))
            maps.update(slice(0, 2))
        after, _ = maps.evaluate(states, slice(0, 2))
        assert bool((after < before).all())
