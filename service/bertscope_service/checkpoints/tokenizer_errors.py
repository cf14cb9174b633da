"""Converts what the tokenizers' library raises."""

from __future__ import annotations

from bertscope_service.errors import FailedPrecondition, LoadAbandonedError, ServiceError

PANICS = "pyo3_runtime"
"""Module of the exception that a panic of Rust code becomes."""


class NamingErrors:
    """Converts errors of the tokenizer's library to FailedPrecondition. A class, because a generator would cost each text
    more."""

    __slots__ = ("_owner",)

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None or isinstance(error, (ServiceError, LoadAbandonedError, MemoryError)):
            return
        # A panic of Rust code is not an Exception.
        if isinstance(error, Exception) or type(error).__module__ == PANICS:
            why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            message = f"the tokenizer of {self._owner} fails on this text ({why}); repair it, and load the model again"
            raise FailedPrecondition(message, "TOKENIZER_FAILED", model=self._owner, error=why) from error
