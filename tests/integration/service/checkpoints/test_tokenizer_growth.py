"""A tokenizer that makes texts longer: much longer is refused before it reads one, a little longer holds nobody up."""

import base64
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope.v1 import cloze_pb2, model_pb2
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.checkpoints.tokenizer_checks import check_tokenizer
from bertscope_service.checkpoints.tokenizer_growth import check_growth
from bertscope_service.encoders.onnx.helper_process import helper
from bertscope_service.errors import FailedPrecondition
from tokenizers import Encoding

from tests.support.harness import CALL_SECONDS, LoopThread, launched, refused

TOKENS = 512


def replace(pattern: str, content: str, *, regex: bool = False) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex" if regex else "String": pattern}, "content": content}


def row(name: str, inner: str, *steps: dict[str, Any]) -> dict[str, Any]:
    return {name: {"type": "Sequence", inner: list(steps)}}


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
REPEATED = {"type": "TemplateProcessing", "special_tokens": {}, "pair": [{"Sequence": {"id": "A", "type_id": 0}}]}
REPEATED["single"] = [{"Sequence": {"id": "A", "type_id": 0}}] * 40

GROWING: dict[str, tuple[dict[str, Any], str, str]] = {
    "one step": ({"normalizer": replace("a", "b " * 500)}, "normalizer", "1000 times"),
    "each step a little": (
        row("normalizer", "normalizers", *[replace("a", "aa")] * 30),
        "normalizer.normalizers[4]",
        "32 times",
    ),
    "an expression that finds nothing": (
        row("normalizer", "normalizers", *[replace("(?=b)", "b", regex=True)] * 30),
        "[6]",
        "26 times",
    ),
    "a prefix": ({"normalizer": {"type": "Prepend", "prepend": "b" * 90}}, "normalizer", "Prepend"),
    "bytes of bytes": (row("pre_tokenizer", "pretokenizers", *[BYTES] * 30), "pretokenizers[5]", "ByteLevel"),
    "what is read from tokens": (row("decoder", "decoders", *[replace("a", "aa")] * 30), "decoder.decoders[4]", "Replace"),
    "a text that is repeated": ({"post_processor": REPEATED}, "post_processor", "40 tokens of one letter"),
}


@pytest.fixture
def growing(copy: Callable[[str], Path]) -> Callable[[dict[str, Any]], Path]:
    """A tiny checkpoint with other parts of its tokenizer, read by the class that keeps all of them."""
    folder = copy("bert")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "mask_token": "[MASK]"})
    )
    path = folder / "tokenizer.json"
    written = json.loads(path.read_text(encoding="utf-8"))

    def made(parts: dict[str, Any]) -> Path:
        path.write_text(json.dumps(written | parts), encoding="utf-8")
        return folder

    return made


@pytest.mark.parametrize(("parts", "field", "words"), GROWING.values(), ids=GROWING)
def test_one_that_grows_texts_much_is_refused(
    growing: Callable[[dict[str, Any]], Path], parts: dict[str, Any], field: str, words: str
) -> None:
    folder = growing(parts)
    with pytest.raises(FailedPrecondition, match=words) as caught:
        check_tokenizer(TextTokenizer.load(folder, TOKENS), folder, 10**6, 2)
    assert caught.value.reason == "SOURCE_UNREADABLE"
    assert field in caught.value.metadata["field"]
    assert float(caught.value.metadata["growth"]) > 18


def test_usual_ones_need_no_other_process(checkpoint: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helper, "call", None)
    for architecture in ("bert", "roberta", "albert"):
        tokenizer = TextTokenizer.load(checkpoint(architecture), TOKENS)
        check_tokenizer(tokenizer, checkpoint(architecture), 10**6, 2)
        assert tokenizer.growth == 1


def test_steps_that_shorten_or_write_forms_of_unicode_are_no_growth(growing: Callable[[dict[str, Any]], Path]) -> None:
    """As sentence-piece vocabularies have them."""
    steps = [
        replace("``", '"'),
        {"type": "NFKD"},
        {"type": "Lowercase"},
        replace(" {2,}", " ", regex=True),
        replace("\u2026", "..."),
    ]
    split = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    folder = growing({**row("normalizer", "normalizers", *steps), "pre_tokenizer": split})
    assert TextTokenizer.load(folder, TOKENS).growth == 1


def test_a_map_of_sentencepiece_reaches_a_process_that_has_yet_to_start() -> None:
    """It is larger than what a socket holds. This one has an empty trie."""
    charsmap = (1024).to_bytes(4, "little") + bytes(1024 + 400_000)
    helper.close()
    written = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
    assert check_growth(Path("model"), {"normalizer": written}) == 1


def test_a_text_that_becomes_long_is_tokenized_in_a_thread_and_one_that_grows_much_is_never_read(
    loop: LoopThread, growing: Callable[[dict[str, Any]], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with launched(loop) as host:

        def load(content: str) -> None:
            source = str(growing({"normalizer": replace("q", content)}))
            request = model_pb2.LoadModelRequest(model_id="grown", source=source)
            list(host.models.LoadModel(request, timeout=CALL_SECONDS))

        with refused(grpc.StatusCode.FAILED_PRECONDITION) as failures:
            load("b " * 500)
        assert "1000 times" in failures[0].message
        load("b " * 5)
        loaded = host.server.registry.find("models/grown").loaded
        assert loaded is not None
        tokenizer, threads = loaded.tokenizer, list[str]()

        def encode_ids(*arguments: Any) -> list[Encoding]:
            threads.append(threading.current_thread().name)
            return TextTokenizer.encode_ids(tokenizer, *arguments)

        monkeypatch.setattr(tokenizer, "encode_ids", encode_ids)
        for letters in (50, 500):
            text = "The [MASK] sat. " + "q" * letters
            request = cloze_pb2.FillMaskRequest(texts=[text], model="models/grown", truncate=True)
            assert host.cloze.FillMask(request, timeout=CALL_SECONDS).results
        assert threads[-1].startswith("bertscope-interactive")
        assert not any(name.startswith("bertscope-interactive") for name in threads[:-1])
