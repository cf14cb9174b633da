"""Callers load and save models where the operator said, and hear nothing of what lies elsewhere."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import huggingface_hub
import pytest
from bertscope.v1 import ablation_pb2, common_pb2, compression_pb2, model_pb2

from tests.support.harness import CALL_SECONDS, Failure, Host, LoopThread, launched, refused

Code = grpc.StatusCode
SECRET = "not-for-callers"


@pytest.fixture(scope="module")
def place(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """root holds a model that may be loaded, SECRET beside it one that may not."""
    base = tmp_path_factory.mktemp("place")
    for folder in ("root/model", SECRET):
        shutil.copytree(checkpoints["bert"], base / folder)
    return base


@pytest.fixture(scope="module")
def confined(loop: LoopThread, place: Path) -> Iterator[Host]:
    """Its own model lies outside the roots: that is the operator's choice."""
    settings: dict[str, Any] = {"model_root": [place / "root"], "model_hub": ["google-bert/*"], "log_level": "debug"}
    with launched(loop, model=[f"own={place / SECRET}"], **settings) as host:
        yield host


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


@pytest.fixture
def model(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the model in the root, to be spoilt."""
    folder = place / "root" / "copy"
    shutil.copytree(place / "root" / "model", folder)
    yield folder
    shutil.rmtree(folder)


def load(host: Host, source: object) -> model_pb2.Model:
    request = model_pb2.LoadModelRequest(model_id="new", source=str(source), replace=True)
    *_, last = host.models.LoadModel(request, timeout=CALL_SECONDS)
    return last.model


def refusal(call: Callable[[], object], code: Code, reason: str) -> Failure:
    with refused(code) as failures:
        call()
    assert failures[0].info.reason == reason
    return failures[0]


def test_a_model_in_a_root_is_loaded_and_what_is_made_of_it_saved_there(confined: Host, place: Path) -> None:
    assert load(confined, place / "root" / "model").state == model_pb2.Model.STATE_READY
    heads = [common_pb2.LayerHeads(layer=0, heads=[1])]
    folder = place / "root" / "pruned"
    request = ablation_pb2.PruneHeadsRequest(model="models/new", heads=heads, model_id="pruned", folder=str(folder))
    confined.ablation.PruneHeads(request, timeout=CALL_SECONDS)
    assert (folder / "model.safetensors").is_file()
    confined.models.UnloadModel(model_pb2.UnloadModelRequest(name="models/pruned"), timeout=CALL_SECONDS)
    shutil.rmtree(folder)


def test_a_hub_id_that_is_not_listed(confined: Host) -> None:
    refusal(lambda: load(confined, "somebody/model"), Code.PERMISSION_DENIED, "SOURCE_NOT_ALLOWED")
    refusal(lambda: load(confined, "google-bert/none"), Code.UNAVAILABLE, "HUB_UNREACHABLE")


def test_a_link_that_escapes(confined: Host, place: Path, model: Path) -> None:
    """Of all that a path may be, see tests/unit/service/checkpoints/test_confinement.py."""
    (model / "tokenizer.json").unlink()
    (model / "tokenizer.json").symlink_to(place / SECRET / "tokenizer.json")
    for source in (model, place / "root" / ".." / SECRET):
        failure = refusal(lambda source=source: load(confined, source), Code.PERMISSION_DENIED, "SOURCE_NOT_ALLOWED")  # type: ignore[misc]
        assert SECRET in str(source) or SECRET not in f"{failure.message}{failure.info}"


def test_code_in_a_checkpoint_never_runs(confined: Host, model: Path) -> None:
    ran = model / "ran"
    (model / "evil.py").write_text(f"open({str(ran)!r}, 'w')\nclass Evil: pass\n")
    for name in ("config.json", "tokenizer_config.json"):
        content = json.loads((model / name).read_text())
        maps = {"AutoConfig": "evil.Evil", "AutoModelForMaskedLM": "evil.Evil", "AutoTokenizer": ["evil.Evil", "evil.Evil"]}
        (model / name).write_text(json.dumps(content | {"auto_map": maps, "tokenizer_class": "Evil"}))
    load(confined, model)  # by the classes that its model_type names
    assert not ran.exists()


@pytest.mark.parametrize("name", ["special_tokens_map.json", "tokenizer_config.json"])
@pytest.mark.parametrize("key", ["vocab", "vocab_file"])
def test_a_vocabulary_comes_from_nowhere_else(confined: Host, place: Path, model: Path, name: str, key: str) -> None:
    words = place / SECRET / "words.txt"
    words.write_text(f"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n{SECRET}\n")
    (model / "tokenizer.json").unlink()
    (model / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n")
    content = {"tokenizer_class": "BertTokenizer"} if name == "tokenizer_config.json" else {"mask_token": "[MASK]"}
    (model / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    (model / name).write_text(json.dumps(content | {key: str(words)}))
    if (name, key) == ("tokenizer_config.json", "vocab_file"):  # usual, left by whoever saved it, and ignored
        load(confined, model)
        tokenizer = confined.server.registry.find("models/new").loaded.tokenizer  # type: ignore[union-attr]
        assert tokenizer.backend.token_to_id(SECRET) is None
    else:
        refusal(lambda: load(confined, model), Code.FAILED_PRECONDITION, "SOURCE_UNREADABLE")


def test_nothing_is_saved_outside(confined: Host, place: Path) -> None:
    folder, before = str(place / "root/../new"), sorted(place.rglob("*"))
    heads, half = [common_pb2.LayerHeads(heads=[1])], common_pb2.PRECISION_BFLOAT16
    prune = ablation_pb2.PruneHeadsRequest(heads=heads, model_id="x", folder=folder)
    step = compression_pb2.CompressionStep(half=compression_pb2.HalfPrecision(precision=half))
    compress = model_pb2.CompressModelRequest(steps=[step], model_id="x", folder=folder)
    for call in (
        lambda: confined.ablation.PruneHeads(prune, timeout=CALL_SECONDS),
        lambda: list(confined.models.CompressModel(compress, timeout=CALL_SECONDS)),
    ):
        refusal(call, Code.PERMISSION_DENIED, "SOURCE_NOT_ALLOWED")
    assert sorted(place.rglob("*")) == before
