"""Models as the hub's library keeps them: a folder of links to blobs, which nothing but these links may leave."""

import shutil
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import pytest
from bertscope_service.encoders.onnx_values import WEIGHTS
from bertscope_service.errors import FailedPrecondition
from bertscope_service.exporting import exported
from bertscope_service.loaded import LoadSpec
from bertscope_service.loading import read_model
from bertscope_service.runtimes import RuntimeSettings
from bertscope_service.sources import inspect

Publish = Callable[[Path], Path]


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Put the files of a folder into a cache of the hub, as org/name; the folder of the snapshot."""

    def put(folder: Path) -> Path:
        blobs, snapshot = (tmp_path / "models--org--name" / part for part in ("blobs", "snapshots/abc"))
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
    assert load(str(snapshot), tmp_path) == "onnx"


@pytest.mark.parametrize("where", ["elsewhere", "models--org--name/blobs-of-mine", "models--org--name/snapshots"])
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
