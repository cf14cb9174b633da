"""Whether one text follows another, against transformers' own classes, one pair at a time; checkpoints without that head."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.analyses.next_sentence import next_sentence_probabilities, next_sentence_rows
from bertscope_service.checkpoints.steps import Int8, KeepLayers, ReduceVocabulary, RemoveHeads, Step
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.torch.checkpoints import read_checkpoint
from bertscope_service.encoders.torch.loading import load_encoder
from transformers import AutoModelForNextSentencePrediction, AutoModelForPreTraining

from tests.support.compressed import made
from tests.support.edited_files import edit_tensors
from tests.support.exports import load_exported, made_once
from tests.support.reference import Subject
from tests.support.rounding import BOTH_SIDES
from tests.support.runner import run_rows
from tests.support.tiny import SENTENCES, write_checkpoint

PAIRS = [
    ("The cat sat.", "It slept in the garden."),
    (SENTENCES[-1], "No!"),
    ("He went to the [MASK].", "He bought [MASK]."),
    ("Paris is old.", "Paris is old."),
    ("No!", SENTENCES[3]),
]
CPU = torch.device("cpu")


@pytest.fixture(scope="module", params=["bert", "mobilebert"])
def related(request: pytest.FixtureRequest, export_cache: Path) -> Subject:
    folder = export_cache.with_name("related") / request.param
    return Subject(request.param, made_once(folder, lambda target: write_checkpoint(request.param, target, relates=True)))


def ask(subject: Subject, encoder: Encoder, gates: Edits | None = None, *, batch: int = 5) -> list[float]:
    rows = next_sentence_rows(subject.tokenizer.encode_all(PAIRS))
    return next_sentence_probabilities(run_rows(encoder, rows, gates, batch=batch))


def expected(subject: Subject, model: Any, field: str) -> list[float]:
    """By transformers, one pair at a time."""
    with torch.inference_mode():
        found = [
            getattr(model(**subject.reference.inputs([text.sequence])), field)[0]
            for text in subject.tokenizer.encode_all(PAIRS)
        ]
    return torch.stack(found).double().softmax(dim=-1)[:, 0].tolist()


@pytest.mark.slow
def test_probabilities_are_those_of_transformers(related: Subject) -> None:
    alone = AutoModelForNextSentencePrediction.from_pretrained(related.folder, attn_implementation="eager").eval()
    both = AutoModelForPreTraining.from_pretrained(related.folder, attn_implementation="eager").eval()
    wanted = expected(related, alone, "logits")
    assert expected(related, both, "seq_relationship_logits") == pytest.approx(wanted, abs=BOTH_SIDES)
    assert max(wanted) - min(wanted) > 0.01
    for encoder in (related.encoder, related.load(pack=True)):
        assert encoder.capabilities.next_sentence
        for batch in (1, 5):
            assert ask(related, encoder, batch=batch) == pytest.approx(wanted, abs=1e-4)


@pytest.mark.slow
def test_graphs_give_the_same_probabilities(related: Subject, export_cache: Path) -> None:
    exported = load_exported(related.folder, export_cache)
    assert exported.capabilities.next_sentence
    for batch in (1, 5):
        assert ask(related, exported, batch=batch) == pytest.approx(ask(related, related.encoder), abs=1e-4)


def edited(folder: Path, target: Path, edit: Callable[[dict[str, torch.Tensor]], None]) -> Path:
    """A copy of a checkpoint with other weights."""
    shutil.copytree(folder, target)
    edit_tensors(target / "model.safetensors", edit)
    return target


SCORES, POOLER = "cls.seq_relationship.weight", "bert.pooler.dense.bias"
BROKEN: dict[str, Callable[[dict[str, torch.Tensor]], Any]] = {
    "no scores": lambda weights: weights.pop(SCORES),
    "not a number": lambda weights: weights[SCORES].fill_(torch.nan),
    "three classes": lambda weights: weights.update({SCORES: torch.ones(3, 32)}),
}


@pytest.fixture(scope="module")
def whole(export_cache: Path) -> Subject:
    folder = export_cache.with_name("related") / "bert"
    return Subject("bert", made_once(folder, lambda target: write_checkpoint("bert", target, relates=True)))


@pytest.mark.slow
@pytest.mark.parametrize("broken", BROKEN)
def test_a_head_that_is_not_whole_is_none_and_the_rest_is_hosted(whole: Subject, tmp_path: Path, broken: str) -> None:
    encoder = load_encoder(edited(whole.folder, tmp_path / "m", BROKEN[broken]), "bert", device=CPU, precision="fp32")
    assert (encoder.capabilities.masked_lm, encoder.capabilities.next_sentence) == (True, False)
    assert encoder.shape.parameters == whole.encoder.shape.parameters - 32 * 32 - 32 - 2 * 32 - 2


def test_a_head_must_be_finite_in_the_precision_that_it_runs_in(whole: Subject, tmp_path: Path) -> None:
    folder = edited(whole.folder, tmp_path / "m", lambda weights: weights[SCORES].fill_(1e6))
    assert [read_checkpoint(folder, "bert", dtype).relates for dtype in (torch.float16, torch.float32)] == [False, True]


COPIES: dict[str, tuple[Step, ...]] = {
    "smaller": (KeepLayers((0, 1)), RemoveHeads({0: (1,)}), ReduceVocabulary(tuple(map(" ".join, PAIRS)))),
    "integers": (KeepLayers((0, 1)), Int8()),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", COPIES)
def test_compressed_copies_keep_the_head(whole: Subject, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / kind
    folder.mkdir()
    copy = Subject("bert", made(whole.folder, folder, *COPIES[kind]))
    config = json.loads((copy.folder / "config.json").read_text())
    assert config["architectures"] == ["BertForMaskedLM"]
    encoder = copy.load(precision="fp32", pack=True)
    assert encoder.capabilities.next_sentence
    cut = AutoModelForNextSentencePrediction.from_pretrained(whole.folder, attn_implementation="eager").eval()
    cut.bert.encoder.layer = cut.bert.encoder.layer[:2]
    close = 1e-4
    if kind == "smaller":
        cut.bert.encoder.layer[0].attention.self.register_forward_hook(
            lambda _, inputs, output: (output[0] * (torch.arange(32) // 8 != 1), *output[1:])
        )
    else:
        close = 0.1
    assert ask(copy, encoder) == pytest.approx(expected(whole, cut, "logits"), abs=close)
