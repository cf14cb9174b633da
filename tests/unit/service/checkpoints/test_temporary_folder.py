"""Temporary folders go with their owner, or after it if it was killed, and never before."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from bertscope_service.checkpoints.temporary_folder import PREFIX, TemporaryFolder, remove_abandoned
from bertscope_service.errors import FailedPrecondition

OWNER = """
from bertscope_service.checkpoints.temporary_folder import TemporaryFolder

owned = TemporaryFolder()
print(owned.folder, flush=True)
input()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_goes_at_the_end_of_a_block_and_only_once(temporary: Path) -> None:
    with TemporaryFolder() as owned:
        folder = owned.folder
    assert not folder.exists()
    folder.mkdir()
    owned.remove()
    assert folder.exists()


def test_one_that_somebody_uses_stays(temporary: Path) -> None:
    with TemporaryFolder() as owned:
        remove_abandoned()
        assert owned.folder.is_dir()


def test_what_a_killed_server_left_is_removed(temporary: Path) -> None:
    command = [sys.executable, "-c", OWNER]
    environment = os.environ | {"TMPDIR": str(temporary)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as owner:
        try:
            assert owner.stdout is not None
            folder = Path(owner.stdout.readline().strip())
            (folder / "weights").write_bytes(b"x")
            remove_abandoned()
            assert (folder / "weights").exists()
        finally:
            owner.kill()
    assert folder.parent == temporary
    assert folder.exists()
    remove_abandoned()
    assert not folder.exists()


def test_a_link_and_what_others_made_are_left_alone(temporary: Path) -> None:
    kept = temporary / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (temporary / f"{PREFIX}link").symlink_to(kept)
    (temporary / f"{PREFIX}file").touch()
    (temporary / "bertscope-report").mkdir()
    remove_abandoned()
    assert (kept / "file").exists()
    assert len(list(temporary.iterdir())) == 4


def test_no_temporary_folder(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "nowhere"))
    with pytest.raises(FailedPrecondition, match="set TMPDIR") as caught:
        TemporaryFolder()
    assert caught.value.reason == "FOLDER_UNWRITABLE"
    assert str(temporary) not in caught.value.message


def test_a_start_without_a_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(tempfile, "gettempdir", none)
    remove_abandoned()
