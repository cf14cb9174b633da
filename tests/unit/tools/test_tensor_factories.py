"""The check that every tensor's number format and device are named."""

from pathlib import Path

import pytest

from tools.tensor_factories import CHECKED, check


def found(folder: Path, source: str) -> list[str]:
    (folder / "module.py").write_text(source, encoding="utf-8")
    return [line.rpartition(": ")[2] for line in check(folder)]


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("torch.empty((2, 3))", "torch.empty(...) without dtype= and device="),
        ("torch.zeros(3, device=device)", "torch.zeros(...) without dtype="),
        ("torch.arange(3, dtype=torch.int64)", "torch.arange(...) without device="),
        ("x = [torch.tensor(1) for _ in range(3)]", "torch.tensor(...) without dtype= and device="),
        ("torch.Tensor(3)", "torch.Tensor(...) takes the default number format; use torch.tensor or torch.empty"),
        ("torch.set_default_dtype(torch.float16)", "torch.set_default_dtype(...) changes what other threads see"),
        ("from torch import zeros", "import torch, and call torch.zeros"),
    ],
)
def test_a_tensor_with_a_default_is_found(tmp_path: Path, source: str, what: str) -> None:
    assert found(tmp_path, source) == [what]


@pytest.mark.parametrize(
    "source",
    [
        "torch.empty((2, 3), dtype=torch.float32, device=device)",
        "torch.zeros_like(x) + x.new_empty(3)",
        "torch.ones(3, **options)",
        "numpy.zeros(3)",
        "def f(x: torch.Tensor) -> torch.Tensor: ...",
    ],
)
def test_what_is_named_passes(tmp_path: Path, source: str) -> None:
    assert found(tmp_path, source) == []


@pytest.mark.slow
def test_the_service_passes() -> None:
    assert check(CHECKED) == []
