"""Errors let go of what functions that have ended held; memory goes back where the C library can."""

import traceback
import weakref

import pytest
from bertscope_service.models.memory import forget_locals


class Large:
    """Something whose end can be seen."""


def test_an_error_forgets_what_led_to_it() -> None:
    held: list[weakref.ref[Large]] = []

    def inner() -> None:
        large = Large()
        held.append(weakref.ref(large))
        raise ValueError("inner")

    def outer() -> None:
        large = Large()
        held.append(weakref.ref(large))
        try:
            inner()
        except ValueError as error:
            raise RuntimeError("outer") from error

    with pytest.raises(RuntimeError) as caught:
        outer()
    assert all(reference() for reference in held)
    forget_locals(caught.value)
    assert len(held) == 2
    assert not any(reference() for reference in held)
    told = "".join(traceback.format_exception(caught.value))
    assert "raise ValueError" in told
    assert "raise RuntimeError" in told


def test_errors_in_a_circle() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    forget_locals(one)
