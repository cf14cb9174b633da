"""The page on security, followed step by step: a server with a certificate and tokens, and who may do what there."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import bertscope
import pytest
from bertscope_service.security.tokens import Tokens

from tests.support.harness import Host, LoopThread, launched
from tests.support.patience import granted

PAGE = Path(__file__).resolve().parents[4] / "docs" / "security.md"
STEPS = re.findall(r"^```(bash|python)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
START = next(number for number, (_, code) in enumerate(STEPS) if code.startswith("bertscope serve"))


def run(language: str, code: str, folder: Path, target: str) -> str:
    """What a step prints, in a folder of its own."""
    program = ["bash", "-euo", "pipefail"] if language == "bash" else [sys.executable]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "BERTSCOPE_TARGET": target}
    code = code.replace("127.0.0.1:50051", target)
    done = subprocess.run(
        [*program, "-c", code], capture_output=True, text=True, timeout=granted(100), cwd=folder, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's files lie: what comes before the server on it has run."""
    folder = tmp_path_factory.mktemp("secured")
    for language, code in STEPS[:START]:
        run(language, code, folder, "nowhere")
    return folder


@pytest.fixture(scope="module")
def secured(loop: LoopThread, folder: Path) -> Iterator[Host]:
    """A server with the flags of the page, which give files only."""
    _, _, *words = shlex.split(STEPS[START][1])
    flags = dict(zip(words[::2], words[1::2], strict=True))
    settings = {flag.removeprefix("--").replace("-", "_"): folder / file for flag, file in flags.items()}
    with launched(loop, **settings) as host:
        yield host


@pytest.mark.slow
@pytest.mark.parametrize("number", range(START + 1, len(STEPS)))
def test_each_step_does_what_the_page_says(number: int, secured: Host, folder: Path) -> None:
    printed = run(*STEPS[number], folder, secured.target)
    assert ("ROLE_REQUIRED" if "PermissionDenied" in STEPS[number][1] else "SERVING") in printed


@pytest.mark.slow
def test_who_is_not_known_gets_nothing(secured: Host, folder: Path) -> None:
    tls = bertscope.Tls(folder / "ca.crt")
    for token in (None, "unknown"):
        with bertscope.Client(secured.target, token=token, tls=tls) as client, pytest.raises(bertscope.Unauthenticated):
            client.list_models()
    with bertscope.Client(secured.target) as client, pytest.raises(bertscope.Unavailable):
        client.unload_model("models/none")


def test_the_page_shows_a_file_of_tokens() -> None:
    (shown,) = re.findall(r"^    # NAME.*?\n\n", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(Tokens.parse(shown)) == 3
