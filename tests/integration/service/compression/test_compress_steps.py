"""Each step against the same by transformers alone, which reads the results like any checkpoint."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from bertscope_service.checkpoints.steps import Criterion, Half, KeepLayers, PruneMagnitude, ReduceVocabulary, RemoveFeedForward
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.compression.importance import masked_lm_objective
from bertscope_service.embedded import EMBEDDED_FOLDER
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import FailedPrecondition, InvalidArgument
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, AutoTokenizer

from tests.support.compressed import batch_of, logits, made, networks_of, without_units
from tests.support.edited_files import say
from tests.support.reference import Reference, assert_close
from tests.support.tiny import ARCHITECTURES, SENTENCES, write_checkpoint

CORPUS = SENTENCES[:4]
STRANGE = (*SENTENCES, "zyzzyva qwxyz", "Ünïcödé 東京 😀", "unplayable [MASK] songs")


@pytest.fixture(scope="module", params=ARCHITECTURES)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, write_checkpoint(request.param, tmp_path_factory.mktemp("steps") / "whole")


@pytest.mark.slow
def test_feed_forward(whole: tuple[str, Path], tmp_path: Path) -> None:
    """Units that are gone give what units give whose activation is zero; those of the least importance are gone.

    Those of the least magnitude are taken out in test_compress_family.py.
    """
    _, folder = whole
    expected, batch = Reference(folder), batch_of(folder)
    outs = [out for _, out in networks_of(expected.model)]
    removed = [score.argsort()[:12] for score in importance(expected, folder, outs)]
    before = logits(expected, batch)
    without_units(outs, removed)
    found = Reference(made(folder, tmp_path / "made", RemoveFeedForward(0.25, Criterion.IMPORTANCE, SENTENCES)))
    assert {out.weight.shape[1] for _, out in networks_of(found.model)} == {36}
    assert_close(logits(found, batch), logits(expected, batch), 1e-5)
    assert (logits(found, batch) - before).abs().max() > 1e-3


def importance(reference: Reference, folder: Path, outs: list[torch.nn.Linear]) -> list[torch.Tensor]:
    """|d loss / d gate| of a gate on each unit that is 1, by texts one at a time: what the sum of activation * gradient is."""
    objective = masked_lm_objective(SENTENCES, TextTokenizer.load(folder, 64), "texts")
    totals = [torch.zeros(out.in_features) for out in outs]
    for sequence, probe in zip(objective.sequences, objective.losses, strict=True):
        gates = [torch.ones(out.in_features, requires_grad=True) for out in outs]
        hooks = [
            out.register_forward_pre_hook(lambda _, inputs, gate=gate: (inputs[0] * gate,))
            for out, gate in zip(outs, gates, strict=True)
        ]
        scores = reference.model(**reference.inputs([sequence])).logits[0].log_softmax(dim=-1)
        golds = torch.from_numpy(np.asarray(vars_of(probe)["golds"]))[:, 0]
        loss = -scores[list(vars_of(probe)["positions"]), golds].mean()
        for total, gradient in zip(totals, torch.autograd.grad(loss, gates), strict=True):
            total += gradient.abs()
        for hook in hooks:
            hook.remove()
    return totals


def vars_of(probe: object) -> dict[str, object]:
    return {name: getattr(probe, name) for name in ("golds", "positions")}


def test_texts_without_a_word_are_refused(tmp_path: Path) -> None:
    folder = write_checkpoint("bert", tmp_path / "whole")
    step = RemoveFeedForward(0.5, Criterion.IMPORTANCE, ("The cat sat.", "[MASK]"))
    with pytest.raises(InvalidArgument, match=r"feed_forward\.texts\[1\] has no word") as caught:
        made(folder, tmp_path / "made", step)
    assert (caught.value.field, caught.value.reason) == ("feed_forward.texts[1]", "NO_WORD")
    assert not (tmp_path / "made").exists()


@pytest.mark.slow
def test_magnitude(whole: tuple[str, Path], tmp_path: Path) -> None:
    architecture, folder = whole
    before = load_file(folder / "model.safetensors")
    after = load_file(made(folder, tmp_path / "made", PruneMagnitude(0.3)) / "model.safetensors")
    assert after.keys() <= before.keys()
    changed = [name for name in after if not torch.equal(after[name], before[name])]
    inside = {"albert": "albert_layers.", "modernbert": ".layers."}.get(architecture, ".layer.")
    matrices = [name for name, values in after.items() if inside in name and values.ndim == 2]
    assert sorted(changed) == sorted(matrices) != []
    for name in matrices:
        gone, count = after[name] == 0, int(0.3 * after[name].numel())
        assert gone.sum() == count
        assert before[name][gone].abs().max() <= before[name][~gone].abs().min()
        assert torch.equal(after[name][~gone], before[name][~gone])
    Reference(tmp_path / "made")


@pytest.mark.slow
def test_vocabulary(whole: tuple[str, Path], tmp_path: Path) -> None:
    """The kept pieces score what they scored, texts of the corpus are split as before, and nothing becomes unreadable."""
    _, folder = whole
    texts = (SENTENCES[0], *SENTENCES[4:6])
    target = made(folder, tmp_path / "made", ReduceVocabulary(texts))
    before, after = Reference(folder), Reference(target)
    old, new = (AutoTokenizer.from_pretrained(path) for path in (folder, target))
    pieces = new.get_vocab()
    assert sorted(pieces.values()) == list(range(len(pieces)))
    assert len(pieces) == after.model.config.vocab_size < before.model.config.vocab_size
    assert set(old.all_special_tokens) <= pieces.keys() <= old.get_vocab().keys()
    assert new.all_special_tokens == old.all_special_tokens
    mask = old.mask_token
    for text in (*texts, *(f"{text} {mask}" for text in texts)):
        assert new.tokenize(text) == old.tokenize(text)
        written = [tokenizer(text)["input_ids"] for tokenizer in (old, new)]
        assert old.convert_ids_to_tokens(written[0]) == new.convert_ids_to_tokens(written[1])
        rows = [TokenSequence(ids, [0] * len(ids)) for ids in written]
        order = [old.convert_tokens_to_ids(piece) for piece in sorted(pieces, key=pieces.__getitem__)]
        assert_close(logits(after, rows[1:]), logits(before, rows[:1])[:, order], 1e-5)
    for text in STRANGE:
        unreadable = [tokenizer(text)["input_ids"].count(tokenizer.unk_token_id) for tokenizer in (old, new)]
        assert unreadable[1] <= unreadable[0]
    config = after.model.config
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id", "mask_token_id"):
        was, now = getattr(before.model.config, name, None), getattr(config, name, None)
        assert (was is None and now is None) or old.convert_ids_to_tokens(was) == new.convert_ids_to_tokens(now)


def test_a_vocabulary_is_counted(tmp_path: Path) -> None:
    folder = write_checkpoint("bert", tmp_path / "whole")
    all_of_it = AutoTokenizer.from_pretrained(made(folder, tmp_path / "once", ReduceVocabulary(("the cat sat", "the cat"))))
    often = AutoTokenizer.from_pretrained(made(folder, tmp_path / "twice", ReduceVocabulary(("the cat sat", "the cat"), 2)))
    assert all_of_it.tokenize("the cat sat") == ["the", "cat", "sat"]
    assert often.tokenize("the cat sat") == ["the", "cat", "s", "##a", "##t"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "precision", "dtype"), [("bert", "fp16", torch.float16), ("modernbert", "bf16", torch.bfloat16)]
)
def test_half(architecture: str, tmp_path: Path, precision: str, dtype: torch.dtype) -> None:
    folder = write_checkpoint(architecture, tmp_path / "whole")
    before = load_file(folder / "model.safetensors")
    target = made(folder, tmp_path / "made", Half(precision))
    after = load_file(target / "model.safetensors")
    assert after.keys() <= before.keys()
    assert all(torch.equal(values, before[name].to(dtype)) for name, values in after.items())
    assert AutoModelForMaskedLM.from_pretrained(target).dtype is dtype
    assert json.loads((target / "config.json").read_text())["dtype"] == str(dtype).removeprefix("torch.")


def test_weights_that_half_can_not_hold(tmp_path: Path) -> None:
    folder = write_checkpoint("bert", tmp_path / "whole")
    model = AutoModelForMaskedLM.from_pretrained(folder)
    with torch.no_grad():
        model.base_model.embeddings.LayerNorm.bias[3] = 1e5
    model.save_pretrained(folder)
    with pytest.raises(FailedPrecondition, match="use bf16") as caught:
        made(folder, tmp_path / "made", Half("fp16"))
    assert caught.value.reason == "WEIGHTS_TOO_LARGE"
    assert not (tmp_path / "made").exists()
    made(folder, tmp_path / "made", Half("bf16"))


def test_the_embedded_model(tmp_path: Path) -> None:
    """Stored in fp16: importance and magnitude are computed in fp32, what is left is not rounded again."""
    steps = (
        KeepLayers((0, 5)),
        RemoveFeedForward(0.5, Criterion.IMPORTANCE, SENTENCES[:2]),
        PruneMagnitude(0.5),
        ReduceVocabulary(SENTENCES),
    )
    before = load_file(EMBEDDED_FOLDER / "model.safetensors")
    after = load_file(made(EMBEDDED_FOLDER, tmp_path / "made", *steps) / "model.safetensors")
    assert {values.dtype for values in after.values()} == {torch.float16}
    query = "bert.encoder.layer.{}.attention.self.query.weight"
    kept = after[query.format(1)]
    assert torch.equal(kept[kept != 0], before[query.format(5)][kept != 0])
    assert after["bert.encoder.layer.1.intermediate.dense.weight"].shape == (768, 384)
    tokenizer = TextTokenizer.load(tmp_path / "made", 512)
    assert tokenizer.size == after["bert.embeddings.word_embeddings.weight"].shape[0] < 5000


@pytest.mark.parametrize("kept", ["vocab.txt", "tokenizer.json"])
def test_tokenizers_as_the_hub_keeps_them(tmp_path: Path, kept: str) -> None:
    """Other files with pieces or ids would contradict the new ones."""
    folder = write_checkpoint("bert", tmp_path / "whole")
    old = AutoTokenizer.from_pretrained(folder)
    vocabulary = old.get_vocab()
    (folder / "vocab.txt").write_text("\n".join(sorted(vocabulary, key=vocabulary.__getitem__)) + "\n")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    tokens = {str(old.convert_tokens_to_ids(token)): {"content": token, "special": True} for token in old.all_special_tokens}
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"added_tokens_decoder": tokens}))
    (folder / "special_tokens_map.json").write_text(json.dumps({"mask_token": "[MASK]", "unk_token": "[UNK]"}))
    if kept == "vocab.txt":
        (folder / "tokenizer.json").unlink()
    target = made(folder, tmp_path / "made", ReduceVocabulary(CORPUS))
    assert {path.name for path in target.glob("*vocab*")} == set()
    new = AutoTokenizer.from_pretrained(target)
    assert len(new) == len(new.get_vocab()) < len(old)
    for text in CORPUS:
        assert new.tokenize(text) == old.tokenize(text)
    assert new(CORPUS[0])["input_ids"][0] == new.cls_token_id == new.get_vocab()["[CLS]"]


def test_the_padding_of_roberta_keeps_its_id(tmp_path: Path) -> None:
    """Its positions are counted from it."""
    folder = write_checkpoint("roberta", tmp_path / "whole")
    say(folder / "config.json", pad_token_id=40)
    before, after = Reference(folder), Reference(made(folder, tmp_path / "made", ReduceVocabulary(CORPUS)))
    assert after.model.config.pad_token_id == 40
    assert after.model.config.vocab_size < before.model.config.vocab_size
    row = [TokenSequence((0, 2, 0, 2), (0,) * 4)]
    assert_close(logits(after, row)[:, :41], logits(before, row)[:, :41], 1e-5)
