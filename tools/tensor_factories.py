"""Finds tensors that the service makes in the default number format, or on the default device, of the process.

    python -m tools.tensor_factories               exit 1 if there are any

Any thread, and any library that a thread calls, can change both defaults: a buffer meant for float32 is half as large then, and
native code that gets its address writes past its end. So every call of a factory of PyTorch names both `dtype=` and `device=`;
`*_like` and `new_*` take them from their tensor argument.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHECKED = ROOT / "service"

FACTORIES = frozenset(
    {
        "arange",
        "as_tensor",
        "asarray",
        "empty",
        "empty_strided",
        "eye",
        "full",
        "linspace",
        "logspace",
        "ones",
        "rand",
        "randint",
        "randn",
        "randperm",
        "scalar_tensor",
        "tensor",
        "tril_indices",
        "triu_indices",
        "zeros",
    }
)
"""Functions of the module torch whose results have the defaults of the process unless the arguments say otherwise."""

NAMED = ("dtype", "device")

CONSTRUCTORS = frozenset({"Tensor"})
"""Functions without such arguments, which must not be called."""

GLOBAL = frozenset({"set_default_dtype", "set_default_device", "set_default_tensor_type"})
"""Functions that change the defaults, which must not be called in a process that serves."""


def problems(source: str) -> Iterator[tuple[int, str]]:
    """Yields line numbers and descriptions of the errors in a module's text."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = _function_of_torch(node.func)
        if name in FACTORIES:
            given = {keyword.arg for keyword in node.keywords}
            if missing := [word for word in NAMED if word not in given and None not in given]:
                yield node.lineno, f"torch.{name}(...) without {' and '.join(f'{word}=' for word in missing)}"
        elif name in CONSTRUCTORS:
            yield node.lineno, f"torch.{name}(...) takes the default number format; use torch.tensor or torch.empty"
        elif name in GLOBAL:
            yield node.lineno, f"torch.{name}(...) changes what other threads see"


def _function_of_torch(function: ast.expr) -> str:
    """Returns the name behind `torch.`, "" for any other function."""
    owner = getattr(function, "value", None)
    return function.attr if isinstance(function, ast.Attribute) and isinstance(owner, ast.Name) and owner.id == "torch" else ""


def imports(source: str) -> Iterator[tuple[int, str]]:
    """Yields factories that a module imports by name, which `problems` would not find."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "torch":
            for alias in node.names:
                if alias.name in FACTORIES | CONSTRUCTORS | GLOBAL:
                    yield node.lineno, f"import torch, and call torch.{alias.name}"


def check(folder: Path) -> list[str]:
    """Returns all problems of the modules below a folder, as lines FILE:LINE: what."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for line, what in sorted({*problems(source), *imports(source)}):
            found.append(f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{line}: {what}")
    return found


def main() -> int:
    found = check(CHECKED)
    print("\n".join(found) or "every tensor's number format and device are named")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
