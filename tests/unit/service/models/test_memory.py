"""Errors let go of what functions that have ended held; memory goes back where the C library can."""

from bertscope_service.models.memory import forget_locals


def test_errors_in_a_circle() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    forget_locals(one)
