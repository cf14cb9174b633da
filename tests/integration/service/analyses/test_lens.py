"""The masked-LM head at every layer against transformers' own head on its own hidden states, on three architectures."""

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from bertscope_service.analyses import lens
from bertscope_service.analyses.lens import LensInput, LensPlan, LensQuery
from bertscope_service.analyses.observers.lens import LensScores, Translators
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.decomposition import Part, decomposition_of
from bertscope_service.encoders.torch.architectures import PRE_NORM
from bertscope_service.errors import InvalidArgument

from tests.support.reference import Subject
from tests.support.rounding import BOTH_SIDES
from tests.support.runner import run_rows

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
def test_every_layer_is_transformers_head_on_its_own_state(subject: Subject, encoder: Encoder, normalise: bool) -> None:
    """By both runtimes, padded and alone."""
    plan = LensPlan(query(subject, normalise=normalise), subject.tokenizer)
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
        # Entries that are nearly as likely may change places.
        lowest, highest = (1 + (logs[:, :, None] > wanted[..., None] + gap).sum(-1) for gap in (2e-3, -2e-3))
        ranks = torch.from_numpy(scores.asked_ranks.astype(np.int64))
        assert ((lowest <= ranks) & (ranks < highest)).all()
        np.testing.assert_allclose(single.asked_logs, scores.asked_logs, atol=2e-4)
        np.testing.assert_allclose(single.divergences, scores.divergences, atol=2e-4)


@pytest.mark.two_architectures
@pytest.mark.parametrize("normalise", [False, True])
def test_maps_come_before_the_head_and_its_normalisation(subject: Subject, encoder: Encoder, normalise: bool) -> None:
    """Of transformers' own states, by both runtimes; the last state has no map."""
    shape, generator = subject.encoder.shape, torch.Generator().manual_seed(5)
    size = (shape.hidden_size + 1, shape.hidden_size)
    maps = {layer: torch.randn(size, generator=generator) / shape.hidden_size**0.5 for layer in range(shape.layers)}
    translators = Translators({layer: values.numpy() for layer, values in maps.items()})
    plan = LensPlan(replace(query(subject, normalise=normalise), translators=translators), subject.tokenizer)
    for text, scores in zip(plan.texts, read(encoder, plan), strict=True):
        hidden = [state[0] for state in subject.reference.run([text.tokenized.sequence]).hidden]
        moved = [state @ maps[layer][:-1] + maps[layer][-1] for layer, state in enumerate(hidden[:-1])]
        logs = torch.stack(expected_logs(subject, [*moved, hidden[-1]], normalise=normalise))
        logs = logs[:, list(text.positions)].transpose(0, 1)
        np.testing.assert_allclose(scores.top_logs, logs.topk(5).values, atol=2e-3)
        np.testing.assert_allclose(scores.entropies, -(logs.exp() * logs).sum(-1), atol=2e-3)


def _ids(text: object) -> list[list[int]]:
    return [[word.pieces[0] for word in words] for words in text.candidates]  # type: ignore[attr-defined]


def test_bad_input_names_the_field(subject: Subject) -> None:
    def problem(asked: LensQuery) -> tuple[str, str]:
        with pytest.raises(InvalidArgument) as caught:
            LensPlan(asked, subject.tokenizer)
        assert "unplayable" not in caught.value.message
        return caught.value.field, caught.value.reason

    assert problem(replace(query(subject), top_k=200_000)) == ("inputs", "TOO_MANY_PREDICTIONS")


@pytest.mark.two_architectures
@pytest.mark.parametrize("subject", ["bert", "modernbert", "mobilebert"], indirect=True)
def test_only_models_whose_layers_end_otherwise_have_no_last_normalisation(subject: Subject, encoder: Encoder) -> None:
    decomposition = decomposition_of(encoder)
    assert decomposition is not None
    assert (decomposition.refusal(Part.LAST) is None) == (subject.architecture != "mobilebert")
    hidden = [torch.randn(2, encoder.shape.hidden_size)]
    if subject.architecture != "mobilebert":
        wanted = last_norm(subject)(hidden[0])
        torch.testing.assert_close(decomposition.normalise_last(hidden[0]), wanted, atol=1e-5, rtol=1e-5)
    assert (subject.architecture in PRE_NORM) == (subject.architecture == "modernbert")


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
