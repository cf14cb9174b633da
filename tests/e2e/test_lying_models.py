"""`bertscope serve --model` of a checkpoint whose files lie: one line that says what is wrong, and an end, within no time."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.lies import CONFIGS, TOKENIZERS, WEIGHTS, Lie
from tests.support.process import Process

pytestmark = pytest.mark.slow

SOME = [CONFIGS[0], TOKENIZERS[0], WEIGHTS[0]]
"""One of each kind; all of them are told to what loads a model in tests/integration/service/checkpoints/test_lies.py."""


@pytest.mark.parametrize("lie", SOME, ids=lambda lie: lie.name)
def test_serve_says_what_is_wrong_and_ends(
    launch: Callable[..., Process], checkpoint: Callable[[str], Path], tmp_path: Path, lie: Lie
) -> None:
    folder = Path(shutil.copytree(checkpoint(lie.architecture), tmp_path / "lying"))
    lie.tell(folder)
    process = launch("--model", f"lying={folder}")
    assert process.end() == 1
    assert "Traceback" not in process.text
    last = process.text.strip().splitlines()[-1]
    assert str(folder) in last
    assert all(word in last for word in lie.words)
