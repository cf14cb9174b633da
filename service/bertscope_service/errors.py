"""Defines the errors of the service.

    ServiceError                    status                reason
    ├── InvalidArgument             INVALID_ARGUMENT      the request can't be answered; names the field
    ├── NotFound                    NOT_FOUND             no such model
    ├── AlreadyExists               ALREADY_EXISTS        the model id is in use, or the folder to save in is not empty
    ├── FailedPrecondition          FAILED_PRECONDITION   the model is still loading, or its source can't be hosted
    ├── Unsupported                 UNIMPLEMENTED         this model or runtime can't do it
    ├── Overloaded                  RESOURCE_EXHAUSTED    full, too late, or too many calls; try again later
    ├── Unauthenticated             UNAUTHENTICATED       the caller sends no token, or an unknown one
    ├── PermissionDenied            PERMISSION_DENIED     the caller may not do this, or the source is not allowed
    ├── Unavailable                 UNAVAILABLE           the server starts, stops or is broken, or the hub can't be reached
    └── DeadlineExceeded            DEADLINE_EXCEEDED     nobody waits for the answer any more

The code that finds a problem raises one of these; `rpc/interceptors.py` is the one place that turns them into a status.
Messages say what to do. Any other exception becomes INTERNAL with an id and without its message.
"""

from __future__ import annotations

import re


class ServiceError(Exception):
    """An error that is reported to the caller.

    `reason` is the stable, machine-readable name (UPPER_SNAKE_CASE) that travels as google.rpc.ErrorInfo.reason, `metadata` the
    values in the message, for machines.
    """

    def __init__(self, message: str, reason: str, **metadata: object) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.metadata = {name: str(value) for name, value in metadata.items()}

    def rename(self, old: str, new: str) -> None:
        """Replaces the path `old`, which callers must not see, and paths below it by `new` in the message and the metadata."""
        # "/home/me" does not match in "/mnt/home/me" or "/home/meadow".
        path = re.compile(rf"(?<![\w.-]){re.escape(old)}(?![\w-]|\.\w)")
        self.message = path.sub(lambda _: new, self.message)
        self.metadata = {name: path.sub(lambda _: new, value) for name, value in self.metadata.items()}
        self.args = (self.message,)


class InvalidArgument(ServiceError):
    """The request can't be answered as it is; `field` names the wrong part ("texts[3]", "interventions[0].layer")."""

    def __init__(self, field: str, message: str, reason: str = "INVALID_FIELD", **metadata: object) -> None:
        super().__init__(message, reason, **metadata)
        self.field = field

    @classmethod
    def about(cls, field: str, problem: str, reason: str, **metadata: object) -> InvalidArgument:
        """Returns an error with a message that begins with the field."""
        return cls(field, f"{field} {problem}", reason, **metadata)


class NotFound(ServiceError):
    """No model of that name is loaded."""


class AlreadyExists(ServiceError):
    """A model of that name is loaded, or being loaded; or a folder to save in is not empty."""


class FailedPrecondition(ServiceError):
    """The request is valid, but the state is wrong: a model is loading, or a source can't be read or hosted."""


class Unsupported(ServiceError):
    """The model or its runtime does not support the request."""


class Overloaded(ServiceError):
    """The server is full; `retry_after` estimates in how many seconds it will not be."""

    def __init__(self, message: str, reason: str, retry_after: float, **metadata: object) -> None:
        super().__init__(message, reason, **metadata)
        self.retry_after = retry_after


class Unauthenticated(ServiceError):
    """The caller has not proved its identity in a way that this server can check."""


class PermissionDenied(ServiceError):
    """The caller is known and may not do this, or nobody may."""


class Unavailable(ServiceError):
    """The server stops, or something it needs can't be reached."""


class DeadlineExceeded(ServiceError):
    """The caller's deadline passed while its rows waited."""


class LoadAbandonedError(Exception):
    """Raised inside the loading thread once nobody waits for the model; no caller sees it."""
