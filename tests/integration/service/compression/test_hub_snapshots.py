"""Models as the hub's library keeps them: a folder of links to blobs, which nothing but these links may leave."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from bertscope_service.checkpoints.sources import inspect, locate
from bertscope_service.encoders.onnx.values import WEIGHTS
from bertscope_service.errors import FailedPrecondition
from bertscope_service.models.export_cache import exported
from bertscope_service.models.loaded import LoadSpec
from bertscope_service.models.loading import read_model
from bertscope_service.models.runtimes import RuntimeSettings
from huggingface_hub.utils import filter_repo_objects

from tests.support.tiny import SENTENCES

COMMIT = "0123456789abcdef" * 2 + "01234567"
Publish = Callable[[Path], Path]


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Put the files of a folder into a cache of the hub, as org/name; the folder of the snapshot."""

    def put(folder: Path) -> Path:
        blobs, snapshot = (tmp_path / "models--org--name" / part for part in ("blobs", f"snapshots/{COMMIT}"))
        for made in (blobs, snapshot):
            made.mkdir(parents=True)
        for number, path in enumerate(sorted(folder.iterdir())):
            shutil.copyfile(path, blobs / f"{number:064x}")
            (snapshot / path.name).symlink_to(f"../../blobs/{number:064x}")
        monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(snapshot))
        return snapshot

    return put


@pytest.fixture
def export(checkpoint: Callable[[str], Path], export_cache: Path) -> Path:
    """A folder of ONNX graphs, as bertscope exports them."""
    source = inspect(checkpoint("bert"))
    return exported(source, source.digest(lambda _: None), export_cache)


def load(source: str, cache: Path) -> str:
    """The runtime of the model."""
    spec = LoadSpec("m", source, "cpu", "fp32", runtime="auto")
    return read_model(spec, lambda _: None, runtimes=RuntimeSettings(cache, threads=1)).encoder.runtime


def test_an_export_runs_from_its_blobs(export: Path, publish: Publish, tmp_path: Path) -> None:
    snapshot = publish(export)
    assert load("org/name", tmp_path) == "onnx"
    assert locate("org/name", "", lambda _: None).revision == COMMIT
    assert locate(str(snapshot), "", lambda _: None).revision == ""
    assert load(str(snapshot), tmp_path) == "onnx"


@pytest.mark.parametrize("where", ["elsewhere", "models--org--name/blobs-of-mine"])
def test_weights_lie_in_the_blobs_or_beside_the_graphs(export: Path, publish: Publish, tmp_path: Path, where: str) -> None:
    snapshot, other = publish(export), tmp_path / where
    other.mkdir(exist_ok=True)
    (snapshot / WEIGHTS).resolve().replace(other / "stolen")
    (snapshot / WEIGHTS).unlink()
    (snapshot / WEIGHTS).symlink_to(other / "stolen")
    with pytest.raises(FailedPrecondition, match="escapes") as caught:
        load(str(snapshot), tmp_path)
    assert caught.value.reason == "SOURCE_UNREADABLE"


def test_an_error_tells_the_hub_id_and_not_the_cache(export: Path, publish: Publish, tmp_path: Path) -> None:
    snapshot = publish(export)
    (snapshot / WEIGHTS).resolve().write_bytes(b"short")
    with pytest.raises(FailedPrecondition) as caught:
        load("org/name", tmp_path)
    assert "org/name" in caught.value.message
    assert str(tmp_path) not in f"{caught.value} {caught.value.metadata}"


def describe_elsewhere(folder: Path) -> None:
    """Let a folder say in files of their own which entries are special and which were added, as older checkpoints do."""
    vocabulary = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    entries = [entry if isinstance(entry, str) else entry[0] for entry in vocabulary]
    special, added = [entry for entry in entries if entry.isalpha() and entry in " ".join(SENTENCES)][:2]
    (folder / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": [special]}), encoding="utf-8")
    (folder / "added_tokens.json").write_text(json.dumps({added: entries.index(added)}), encoding="utf-8")


def tokens(source: str, cache: Path) -> list[tuple[list[int], list[bool]]]:
    """Ids of some texts, and which of the tokens are special."""
    model = read_model(LoadSpec("m", source, "cpu", "fp32"), lambda _: None, runtimes=RuntimeSettings(cache, threads=1))
    encoded = [model.tokenizer.encode(text) for text in SENTENCES]
    return [(text.sequence.ids, [piece.special for piece in text.pieces(model.tokenizer)]) for text in encoded]


@pytest.mark.parametrize("architecture", ["bert", "xlm-roberta"])
def test_a_repository_tokenises_alike_from_the_hub_and_from_a_folder(
    checkpoint: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: str
) -> None:
    folder = Path(shutil.copytree(checkpoint(architecture), tmp_path / "repository"))
    plain = tokens(str(folder), tmp_path)
    describe_elsewhere(folder)

    def download(_: str, *, allow_patterns: list[str], ignore_patterns: list[str], **__: Any) -> str:
        snapshot = tmp_path / "models--org--name" / "snapshots" / "abc"
        snapshot.mkdir(parents=True)
        names = [path.name for path in folder.iterdir()]
        for name in filter_repo_objects(names, allow_patterns=allow_patterns, ignore_patterns=ignore_patterns):
            shutil.copyfile(folder / name, snapshot / name)
        return str(snapshot)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    from_folder = tokens(str(folder), tmp_path)
    assert from_folder != plain, "these files matter"
    assert tokens("org/name", tmp_path) == from_folder
