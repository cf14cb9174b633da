"""Nothing tells people to install by a name that anybody may register."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BY_NAME = re.compile(
    r"""\b(?:pip3?|uv|pipx|uvx|uv\s+tool)\s+(?:add|install|run)\b[^\n`#|]*?[\s"']bertscope(?:-service)?(?=[\s"'`\[=<>~!)]|$)"""
)


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    suffixes = {".py", ".md", ".toml", ".yaml", ".yml", ".js", ".json", ".sh", ""}
    return [ROOT / name for name in listed.split("\0") if name and Path(name).suffix in suffixes]


@pytest.mark.slow
def test_no_page_or_message_installs_by_a_name_that_is_not_published() -> None:
    found = []
    for path in tracked():
        if path == Path(__file__).resolve() or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if BY_NAME.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


def test_what_counts_as_installing_by_name() -> None:
    for line in ("pip install bertscope", '`pip install "bertscope[plot]"', "uv pip install --quiet bertscope==0.1.0"):
        assert BY_NAME.search(line), line
    for line in ("pip install . './service[otel]'", "pip install bertscope-*.whl", "docker run --env A bertscope"):
        assert not BY_NAME.search(line), line
