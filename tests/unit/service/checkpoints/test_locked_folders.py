"""Models that killed processes were saving are removed, and never one that somebody is writing."""

import subprocess
import sys
from pathlib import Path

import pytest
from bertscope_service.checkpoints.atomic_folder import atomic_folder
from bertscope_service.checkpoints.locked_folders import remove_unfinished

SAVER = """
import sys
from pathlib import Path
from bertscope_service.checkpoints.atomic_folder import atomic_folder

with atomic_folder(Path(sys.argv[1])) as beside:
    (beside / "weights").write_bytes(b"x")
    print(beside, flush=True)
    input()
"""


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """What a process that was killed left of a model; nobody removed it before."""
    command = [sys.executable, "-c", SAVER, str(tmp_path / "root" / "a" / "made")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as saver:
        try:
            assert saver.stdout is not None
            beside = Path(saver.stdout.readline().strip())
            remove_unfinished([tmp_path])
            with atomic_folder(beside.with_name("other")):
                assert (beside / "weights").exists()
        finally:
            saver.kill()
    assert beside.exists()
    return beside


def test_the_next_start_removes_it_wherever_it_is_below_a_root(left: Path, tmp_path: Path) -> None:
    for kept in (tmp_path / "outside" / left.name, tmp_path / "root" / ".bertscope-0123456789ab"):
        kept.mkdir(parents=True)  # that of another folder, and of a server that locks none
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    remove_unfinished([tmp_path / "root", tmp_path / "gone"])
    assert sorted(path.name for path in (tmp_path / "root").rglob("*")) == [".bertscope-0123456789ab", "a", "link", "other"]
    assert (tmp_path / "outside" / left.name).exists()


def test_the_next_save_there_removes_it(left: Path) -> None:
    with atomic_folder(left.with_name("made")):
        assert not left.exists()
    assert sorted(path.name for path in left.parent.iterdir()) == ["made", "other"]
