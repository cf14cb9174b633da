"""What guards the contract notices what it is there for."""

import shutil
from pathlib import Path

import pytest

from protos.generate import PROTOS
from protos.lint import buf, image

CLOZE = "bertscope/v1/cloze.proto"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The .proto files, to be spoilt."""
    return Path(shutil.copytree(PROTOS, tmp_path / "protos"))


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_the_contract_is_clean_and_does_not_break_itself(tmp_path: Path) -> None:
    ours = image(PROTOS, tmp_path / "ours.binpb")
    assert buf("lint", ours)
    assert buf("breaking", ours, "--against", ours)


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("uint32 token_index = 1;", "uint32 tokenIndex = 1;", "lower_snake_case"),
        ("  // Likeliest first.\n", "", "non-empty comment"),
        ("rpc FillMask(FillMaskRequest)", "rpc FillMask(Prediction)", "FillMaskRequest"),
    ],
)
def test_lint_finds(copy: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], old: str, new: str, finding: str) -> None:
    replace(copy / CLOZE, old, new)
    assert not buf("lint", image(copy, tmp_path / "spoilt.binpb"))
    assert finding in capfd.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("uint32 token_index = 1;", "uint64 token_index = 1;", "changed type"),
        ("  bool truncate = 6;\n", "", "was deleted"),
        ("  rpc FillMask(", "  rpc FillMasks(", 'RPC "FillMask"'),
    ],
)
def test_breaking_finds(
    copy: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], old: str, new: str, finding: str
) -> None:
    replace(copy / CLOZE, old, new)
    theirs = image(PROTOS, tmp_path / "theirs.binpb")
    assert not buf("breaking", image(copy, tmp_path / "spoilt.binpb"), "--against", theirs)
    assert finding in capfd.readouterr().out
