"""How long tests wait before they fail. Limits are written in seconds of an idle machine, and are longer on slower and busier
ones. A wait in vain says what was there instead."""

import ast
import inspect
import os
import reprlib
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

LOOPS = 100_000
LOOP_SECONDS = 0.003
"""How long an idle machine takes for as many additions."""


@cache
def slowness() -> float:
    """How many times longer than there a loop takes here, at least 1; the shortest of some, which a moment's load spares."""

    def taken() -> float:
        begin = time.perf_counter()
        sum(number for number in range(LOOPS))
        return time.perf_counter() - begin

    return max(1.0, min(taken() for _ in range(5)) / LOOP_SECONDS)


def granted(idle: float) -> float:
    """The time that is granted now for what takes up to so many seconds on an idle machine."""
    return idle * slowness() * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def wait_until(condition: Callable[[], object], what: str, idle: float = 60.0) -> None:
    """Comes back as soon as the condition holds; fails if it does not in the time granted for so many idle seconds."""
    allowed = granted(idle)
    limit = time.monotonic() + allowed
    while not condition():
        assert time.monotonic() < limit, f"waited {allowed:.0f} s in vain until {what}: {seen(condition)}"
        time.sleep(0.002)


def seen(condition: Callable[[], object]) -> str:
    """What a lambda finds: its comparisons' operands with their values now. The name of any other function."""
    code = getattr(condition, "__code__", None)
    if code is None or code.co_name != "<lambda>":
        return repr(condition)
    places = [(first, last, begin, end) for first, last, begin, end in code.co_positions() if end]
    start, stop = min((first, begin) for first, _, begin, _ in places), max((last, end) for _, last, _, end in places)
    tree = ast.parse(Path(code.co_filename).read_text(encoding="utf-8"))
    lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and _holds(node, start, stop)]
    body = lambdas[-1].body  # the innermost: a walk comes to it last
    defaults = {name: given.default for name, given in inspect.signature(condition).parameters.items()}
    names = getattr(condition, "__globals__", {}) | inspect.getclosurevars(condition).nonlocals | defaults
    return "; ".join(f"{ast.unparse(part)} is {_value(part, names)}" for part in _operands(body))


def _holds(node: ast.expr, start: tuple[int, int], stop: tuple[int, int]) -> bool:
    return (node.lineno, node.col_offset) <= start and stop <= (node.end_lineno or 0, node.end_col_offset or 0)


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.BoolOp(values=parts):
            yield from (operand for part in parts for operand in _operands(part))
        case ast.Compare(left=left, comparators=others):
            yield from (part for part in (left, *others) if not isinstance(part, ast.Constant))
        case ast.UnaryOp(op=ast.Not(), operand=part):
            yield from _operands(part)
        case _:
            yield node


def _value(node: ast.expr, names: dict[str, Any]) -> str:
    try:
        return reprlib.repr(eval(compile(ast.Expression(node), "<condition>", "eval"), names))
    except Exception as error:  # noqa: BLE001  # a condition may raise where an earlier part of it does not hold
        return f"not known, {error!r}"
