"""The cache of exported graphs: each checkpoint once, nothing half-written used, and no model lost because of it."""

import errno
import fcntl
import os
import re
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service import cache_command
from bertscope_service.checkpoints.manifest import MANIFEST, read_manifest
from bertscope_service.checkpoints.sources import Source, inspect
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.onnx.values import ANALYSIS, FAST, WEIGHTS
from bertscope_service.errors import FailedPrecondition
from bertscope_service.models import export_cache as exporting
from bertscope_service.models import kept_exports as keeping
from bertscope_service.models.export_cache import exported
from bertscope_service.models.kept_exports import UNUSED_SECONDS, exports_bytes, kept_exports, locked, prune_unless_busy
from bertscope_service.models.runtimes import RuntimeRequest, RuntimeSettings, gradient_encoder, read_encoders

from tests.support.patience import granted
from tests.support.tiny import write_checkpoint

DIGEST = "sha256:" + "1" * 64
CPU = torch.device("cpu")


@dataclass
class Exporter:
    """Copies what was exported before, in place of an export that takes seconds."""

    whole: Path
    calls: int = 0
    before: list[Callable[[], object]] = field(default_factory=list)

    def __call__(self, checkpoint_folder: Path, architecture: str, target_folder: Path, **_: object) -> tuple[Any, Any]:
        self.calls += 1
        for act in self.before:
            act()
        for name in (FAST, ANALYSIS, WEIGHTS):
            shutil.copyfile(self.whole / name, target_folder / name)
        manifest = read_manifest(self.whole)
        assert manifest is not None
        return manifest.steps, manifest.details


@pytest.fixture
def bert(checkpoint: Callable[[str], Path]) -> Source:
    return inspect(checkpoint("bert"))


@pytest.fixture
def exporter(bert: Source, export_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Exporter:
    copying = Exporter(exported(bert, bert.digest(lambda _: None), export_cache))
    monkeypatch.setattr(exporting, "export_onnx", copying)
    return copying


def read(bert: Source, cache: Path, runtime: str = "onnx") -> list[Encoder]:
    return read_encoders(bert, DIGEST, RuntimeRequest(runtime, "fp32", CPU), RuntimeSettings(cache, threads=1))


def fail(error: Exception) -> Callable[[], object]:
    def act() -> None:
        raise error

    return act


def test_two_servers_at_once_export_once(
    bert: Source, exporter: Exporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes second waits, and takes what the first one wrote."""
    started, waiting, lock = threading.Event(), threading.Event(), fcntl.flock

    def flock(file: Any, how: int) -> None:
        if started.is_set():
            waiting.set()
        lock(file, how)

    def export() -> None:
        started.set()
        assert waiting.wait(granted(20))

    monkeypatch.setattr(fcntl, "flock", flock)
    exporter.before.append(export)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(exported, bert, DIGEST, tmp_path)
        assert started.wait(granted(20))
        second = threads.submit(exported, bert, DIGEST, tmp_path)
        assert first.result(granted(20)) == second.result(granted(20))
    assert exporter.calls == 1


def test_a_server_that_was_killed_leaves_nothing_for_long(bert: Source, exporter: Exporter, tmp_path: Path) -> None:
    left = tmp_path / "onnx" / ".bertscope-0123456789ab"
    left.mkdir(parents=True)
    (left / WEIGHTS).write_bytes(bytes(64))
    folder = exported(bert, DIGEST, tmp_path)
    assert {path.name for path in (tmp_path / "onnx").iterdir()} == {folder.name, "lock"}


@pytest.mark.parametrize("name", [MANIFEST, WEIGHTS])
def test_files_cut_short_are_written_again(bert: Source, exporter: Exporter, tmp_path: Path, name: str) -> None:
    """As a machine that went down leaves them."""
    path = exported(bert, DIGEST, tmp_path) / name
    path.write_bytes(path.read_bytes()[:64])
    (encoder,) = read(bert, tmp_path)
    assert encoder.runtime == "onnx"
    assert exporter.calls == 2
    read(bert, tmp_path)
    assert exporter.calls == 2


def test_graphs_that_stay_broken_are_an_error(bert: Source, exporter: Exporter, tmp_path: Path) -> None:
    exporter.whole = Path(shutil.copytree(exporter.whole, tmp_path / "broken"))
    (exporter.whole / FAST).write_bytes(b"nonsense")
    with pytest.raises(FailedPrecondition) as caught:
        read(bert, tmp_path)
    assert caught.value.reason == "SOURCE_UNREADABLE"
    assert exporter.calls == 2


FAILURES: dict[str, tuple[Exception, str]] = {
    "full disk": (OSError(errno.ENOSPC, "No space left on device"), "DISK_FULL"),
    "no rights": (PermissionError(errno.EACCES, "Permission denied"), "FOLDER_UNWRITABLE"),
}


@pytest.mark.parametrize(("error", "reason"), FAILURES.values(), ids=FAILURES)
def test_a_cache_that_can_not_be_written(
    bert: Source, exporter: Exporter, tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception, reason: str
) -> None:
    exporter.before.append(fail(error))
    with pytest.raises(FailedPrecondition) as caught:
        read(bert, tmp_path)
    assert caught.value.reason == reason
    assert "the cache of exported graphs" in caught.value.message
    assert str(tmp_path) not in f"{caught.value.message} {caught.value.metadata}"
    assert [path.name for path in tmp_path.rglob("*")] == ["onnx", "lock"]
    assert not caplog.records
    (encoder,) = read(bert, tmp_path, "auto")
    assert encoder.runtime == "torch"
    assert "is served by torch" in caplog.text


def test_a_file_in_the_caches_place(bert: Source, exporter: Exporter, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "cache").write_text("mine")
    (tmp_path / "other" / "onnx").mkdir(parents=True)
    (tmp_path / "other" / "onnx" / exported(bert, DIGEST, tmp_path / "third").name).write_text("mine")
    for cache in (tmp_path / "cache", tmp_path / "other", Path("/proc/cache"), Path("~nobody-of-this-name/cache")):
        with pytest.raises(FailedPrecondition, match="--cache-folder") as caught:
            read(bert, cache)
        assert caught.value.reason == "FOLDER_UNWRITABLE"
        assert [encoder.runtime for encoder in read(bert, cache, "auto")] == ["torch"]
    assert exporter.calls == 1
    assert (tmp_path / "cache").read_text() == "mine"


def test_an_exporter_that_fails_does_not_keep_torch_from_serving(
    bert: Source, exporter: Exporter, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exporter.before.append(fail(RuntimeError("no such operator")))
    assert [encoder.runtime for encoder in read(bert, tmp_path, "auto")] == ["torch"]
    assert "no such operator" in caplog.text


def test_gradients_are_of_the_same_weights(tmp_path: Path) -> None:
    source = inspect(write_checkpoint("bert", tmp_path / "model"))
    asked, digest = RuntimeRequest("onnx", "fp32", CPU), source.digest(lambda _: None)
    assert gradient_encoder(source, digest, asked).runtime == "torch"
    write_checkpoint("bert", tmp_path / "model", seed=1)
    with pytest.raises(FailedPrecondition) as caught:
        gradient_encoder(source, digest, asked)
    assert caught.value.reason == "SOURCE_CHANGED"
    shutil.rmtree(tmp_path / "model")
    with pytest.raises(FailedPrecondition) as caught:
        gradient_encoder(source, digest, asked)
    assert caught.value.reason == "SOURCE_UNREADABLE"


def test_exports_of_other_versions_go_when_nobody_has_used_them_for_long(
    bert: Source, exporter: Exporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def export(version: str) -> Path:
        monkeypatch.setattr(keeping, "__version__", version)
        return exported(bert, DIGEST, tmp_path)

    old, used = export("0.1"), export("0.2")
    long_ago = time.time() - UNUSED_SECONDS - 60
    for folder in (old, used):
        os.utime(folder / MANIFEST, (long_ago, long_ago))
    assert export("0.2") == used
    assert exporter.calls == 2
    new = export("0.3")
    assert (old.exists(), used.exists(), new.exists()) == (False, True, True)
    sizes = [path.stat().st_size for folder in (used, new) for path in folder.iterdir()]
    assert exports_bytes(tmp_path) == sum(sizes)
    assert exports_bytes(tmp_path / "nothing") == 0
    assert [(kept.folder, kept.bertscope, kept.current) for kept in kept_exports(tmp_path)] == [
        (new, "0.3", True),
        (used, "0.2", False),
    ]
    assert {kept.model for kept in kept_exports(tmp_path)} == {"bert, 4 layers of 32"}
    assert sum(kept.size_bytes for kept in kept_exports(tmp_path)) == sum(sizes)


def test_a_server_that_starts_removes_old_exports_unless_another_one_writes(
    bert: Source, exporter: Exporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as former:
        former.setattr(keeping, "__version__", "0.1")
        old = exported(bert, DIGEST, tmp_path)
    (old / MANIFEST).write_text('{"format": 1}')  # a format that this server does not read
    new = exported(bert, DIGEST, tmp_path)
    long_ago = time.time() - UNUSED_SECONDS - 60
    for folder in (old, new):
        os.utime(folder / MANIFEST, (long_ago, long_ago))
    with locked(tmp_path / "onnx"):
        prune_unless_busy(tmp_path)
    assert (old.exists(), new.exists()) == (True, True)
    prune_unless_busy(tmp_path)
    assert (old.exists(), new.exists()) == (False, True)
    prune_unless_busy(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_the_command_lists_and_prunes(
    bert: Source, exporter: Exporter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = exported(bert, DIGEST, tmp_path)
    where = ["--cache-folder", str(tmp_path)]
    assert cache_command.run(["list", *where]) == 0
    assert re.search(r"bert, 4 layers of 32 +111111111111 +\d+\.\d MB +today +yes", capsys.readouterr().out)
    assert cache_command.run(["prune", "--all-versions", "--days", "0", "--dry-run", *where]) == 0
    assert "would remove 1 export" in capsys.readouterr().out
    assert cache_command.run(["prune", "--days", "0", *where]) == 0
    assert "nothing to remove" in capsys.readouterr().out
    assert folder.exists()
    assert cache_command.run(["prune", "--all-versions", "--days", "0", *where]) == 0
    assert "removed 1 export" in capsys.readouterr().out
    assert not folder.exists()
    assert cache_command.run(["list", *where]) == 0
    assert "holds no exported graphs" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        cache_command.run(["prune", "--days", "-1"])
