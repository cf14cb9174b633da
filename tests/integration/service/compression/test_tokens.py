"""Models that drop tokens, against a reference written with transformers' own modules, text by text in float64."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.checkpoints.steps import EliminateTokens, Int8, KeepLayers
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.compression.tokens import eliminate_tokens
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import State
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.errors import FailedPrecondition, InvalidArgument
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification

from tests.support.compressed import make
from tests.support.edited_files import say
from tests.support.pruned import load
from tests.support.reference import assert_close
from tests.support.tiny import ARCHITECTURES, SENTENCES, write_checkpoint

SHARES = (0.8, 0.8, 0.5, 0.3)
TEXTS = [SENTENCES[1].replace("capital", "[MASK]"), SENTENCES[6], "[MASK] " + SENTENCES[8] + " [MASK]", *SENTENCES[2:4]]


@dataclass
class Dropping:
    """A checkpoint, the same with tokens dropped, and transformers' own model of it in float64."""

    architecture: str
    whole: Path
    folder: Path
    labels: int

    @cached_property
    def encoder(self) -> TorchEncoder:
        return load(self.architecture, self.folder)

    @cached_property
    def tokenizer(self) -> TextTokenizer:
        return TextTokenizer.load(self.whole, self.encoder.shape.max_tokens)

    @cached_property
    def batch(self) -> list[TokenSequence]:
        return [self.tokenizer.encode(text, truncate=True).sequence for text in TEXTS]

    @cached_property
    def shares(self) -> tuple[float, ...]:
        return SHARES[: self.encoder.shape.layers]

    @cached_property
    def model(self) -> Any:
        kind = AutoModelForSequenceClassification if self.labels else AutoModelForMaskedLM
        return kind.from_pretrained(self.whole, attn_implementation="eager").double().eval()

    def protected(self, sequence: TokenSequence, read: Sequence[int] = ()) -> list[int]:
        masks = [place for place, token in enumerate(sequence.ids) if token == self.tokenizer.mask_id]
        return sorted({0, *masks, *read})


@pytest.fixture(
    scope="module",
    params=[*((a, 0) for a in ARCHITECTURES), *((a, 3) for a in ("bert", "distilbert", "modernbert"))],
    ids=lambda it: f"{it[0]}-{it[1]}",
)
def dropping(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Dropping:
    architecture, labels = request.param
    root = tmp_path_factory.mktemp("tokens")
    whole = write_checkpoint(architecture, root / "whole", labels=labels)
    layers = load(architecture, whole).shape.layers
    return Dropping(architecture, whole, make(whole, root / "made", EliminateTokens(SHARES[:layers])), labels)


def reference(subject: Dropping, sequence: TokenSequence, read: Sequence[int] = ()) -> tuple[list[int], torch.Tensor]:
    """The places that are left at the end and their hidden states [n, hidden_size], float64.

    Layers run whole, and tokens are dropped behind them: what follows attention treats each token by itself.
    """
    arrangement = type(subject.encoder.architecture)(subject.model)
    hidden = arrangement.embed(torch.tensor([sequence.ids]), torch.tensor([sequence.segments]), None)
    places, kept = list(range(len(sequence))), subject.protected(sequence, read)
    for layer, share in enumerate(subject.shares):
        hidden, maps = layer_and_maps(arrangement, arrangement.layers[layer], hidden, places)
        scores = maps[0].sum(dim=(0, 1)).tolist()
        ranked = sorted(range(len(places)), key=lambda index: (places[index] not in kept, -scores[index], places[index]))
        index = sorted(ranked[: max(1, round(share * len(sequence)), len(kept))])
        hidden, places = hidden[:, index], [places[one] for one in index]
    if subject.architecture == "modernbert":
        hidden = arrangement.encoder.final_norm(hidden)
    return places, hidden[0]


def layer_and_maps(arrangement: Any, module: Any, hidden: torch.Tensor, places: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """What a layer gives, and its maps [1, heads, n, n]."""
    seen: list[torch.Tensor] = []
    children = dict(module.named_modules())
    attention = next(children[name] for name in ("attn", "attention.self", "attention") if name in children)
    hook = attention.register_forward_hook(lambda _, __, output: seen.append(output[1]))
    options: dict[str, Any] = {"attention_mask": None}
    if "attn" in children:
        at = torch.tensor([places])
        if module.attention_type == "sliding_attention":
            far = (at[:, :, None] - at[:, None]).abs() > arrangement.model.config.sliding_window
            options["attention_mask"] = torch.zeros(far.shape, dtype=torch.float64).masked_fill(far, -1e300)[:, None]
        options["position_embeddings"] = arrangement.encoder.rotary_emb(hidden, at, module.attention_type)
    output = module(hidden, **options)
    hook.remove()
    return output if isinstance(output, torch.Tensor) else output[0], seen[0]


@torch.no_grad()
def finish(encoder: TorchEncoder, batch: Sequence[TokenSequence], only: list[list[int]] | None = None) -> State:
    state = encoder.begin(batch)
    encoder.advance(state, encoder.shape.layers, only=None if only is None else torch.tensor(only))
    return state


@pytest.mark.slow
@torch.no_grad()
def test_survivors_are_those_of_the_reference(dropping: Dropping) -> None:
    for batch in (dropping.batch, [dropping.batch[0]], [dropping.batch[2]]):
        state = finish(dropping.encoder, batch)
        assert state.kept_tokens is not None
        assert state.hidden.shape[1] == max(state.lengths) < max(map(len, batch))
        for row, sequence in enumerate(batch):
            places, hidden = reference(dropping, sequence)
            length = state.lengths[row]
            assert state.kept_tokens.places[row, :length].tolist() == places
            assert_close([state.hidden[row, :length].double()], [hidden])


@torch.no_grad()
def test_scores_are_those_of_the_reference(dropping: Dropping) -> None:
    (labels_are if dropping.labels else masks_are)(dropping)


def masks_are(dropping: Dropping) -> None:
    """Read as cloze does: at positions of the texts, here the masks and one more."""
    masks = [max(dropping.protected(sequence)) for sequence in dropping.batch]
    only = [[mask, 2] for mask in masks]
    state = finish(dropping.encoder, dropping.batch, only)
    rows = torch.arange(len(only)).repeat_interleave(2)
    found = dropping.encoder.logits(state, rows, torch.tensor([0, 1] * len(only)))
    arrangement = type(dropping.encoder.architecture)(dropping.model)
    for row, sequence in enumerate(dropping.batch):
        places, hidden = reference(dropping, sequence, only[row])
        expected = arrangement.predict(hidden[[places.index(place) for place in only[row]]])
        assert_close([found[2 * row : 2 * row + 2].double()], [expected])


def labels_are(dropping: Dropping) -> None:
    arrangement = type(dropping.encoder.architecture)(dropping.model)
    expected = [arrangement.classify(reference(dropping, sequence)[1][None], None)[0] for sequence in dropping.batch]
    only = [[0]] * len(dropping.batch) if dropping.encoder.reads_first else None
    found = dropping.encoder.classify(finish(dropping.encoder, dropping.batch, only))
    assert_close(list(found.double()), expected)


@torch.no_grad()
def test_a_dropped_token_has_no_scores(bert: Path, tmp_path: Path) -> None:
    encoder = load("bert", make(bert, tmp_path / "made", EliminateTokens(SHARES)))
    sequence = TextTokenizer.load(bert, 64).encode(TEXTS[1]).sequence
    state = finish(encoder, [sequence])
    assert state.kept_tokens is not None
    left = state.kept_tokens.places[0].tolist()
    places = torch.arange(len(sequence))
    scores = encoder.logits(state, torch.zeros_like(places), places)
    assert scores.isnan().all(dim=1).nonzero()[:, 0].tolist() == sorted(set(range(len(sequence))) - set(left))
    alone = encoder.logits(State(state.hidden, (len(left),), None), places[: len(left)] * 0, places[: len(left)])
    torch.testing.assert_close(scores[left], alone, atol=1e-5, rtol=1e-5)  # a product of fewer rows may round otherwise
    state = encoder.begin([sequence])
    encoder.advance(state, 3)
    gone = next(place for place in range(len(sequence)) if place not in left)
    with pytest.raises(ValueError, match="dropped before"):
        encoder.advance(state, 4, only=torch.tensor([[gone]]))


@torch.no_grad()
def test_states_of_rows_can_be_stacked_on_the_way(bert: Path, tmp_path: Path) -> None:
    encoder = load("bert", make(bert, tmp_path / "made", EliminateTokens(SHARES)))
    batch = [TextTokenizer.load(bert, 64).encode(text).sequence for text in TEXTS]
    state = encoder.begin(batch)
    encoder.advance(state, 2)
    again = State.stack([state.row(index) for index in range(len(batch))][::-1])
    encoder.advance(state, 4)
    encoder.advance(again, 4)
    assert again.lengths == state.lengths[::-1]
    for row, length in enumerate(again.lengths):
        assert_close([again.hidden[row, :length]], [state.hidden[len(batch) - 1 - row, :length]])


def test_it_goes_with_other_steps(bert: Path, tmp_path: Path) -> None:
    folder = make(bert, tmp_path / "made", KeepLayers((0, 3)), EliminateTokens((0.6, 0.4)), Int8())
    encoder = load("bert", folder)
    assert (encoder.precision, encoder.shape.layers, encoder.capabilities.observable) == ("int8", 2, False)
    state = finish(encoder, [TextTokenizer.load(bert, 64).encode(TEXTS[1]).sequence])
    assert state.lengths == (round(0.4 * (state.kept_tokens.tokens[0] if state.kept_tokens else 0)),)


@pytest.mark.parametrize("shares", [(1.0,) * 3, (1.0, 0.5, 0.6, 0.1), (1.0, 0.5, 0.5, 0.0), (1.1, 1, 1, 1)])
def test_shares_that_mean_nothing_are_refused(bert: Path, tmp_path: Path, shares: tuple[float, ...]) -> None:
    with pytest.raises(InvalidArgument, match="kept_shares"):
        eliminate_tokens(AutoModelForMaskedLM.from_pretrained(bert), shares)
    folder = make(bert, tmp_path / "made", EliminateTokens(SHARES))
    say(folder / "config.json", bertscope_kept_shares=shares)
    with pytest.raises(FailedPrecondition, match="bertscope_kept_shares"):
        load("bert", folder)
