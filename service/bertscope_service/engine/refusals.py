"""Makes the errors for callers whose rows will not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertscope_service.errors import DeadlineExceeded, Overloaded, Unavailable

if TYPE_CHECKING:
    import torch  # an import takes seconds, and a server that starts has no device yet


def late() -> DeadlineExceeded:
    """Returns the error for rows whose deadline passed while they waited."""
    return DeadlineExceeded("the request waited so long that its deadline can't be met; give it more time", "DEADLINE_IN_QUEUE")


def lent(device: str, retry_after: float) -> Overloaded:
    """Returns the error for jobs on a device that a benchmark has for itself for about `retry_after` seconds."""
    message = f"{device} is reserved for a benchmark for about {retry_after:.2g} s; try again then"
    return Overloaded(message, "DEVICE_BUSY", retry_after, device=device)


def broken(device: torch.device) -> Unavailable:
    """Returns the error for calls to a device that has failed for good."""
    return Unavailable(f"{device} has failed and needs a new server process; ask another server", "DEVICE_BROKEN")


def stalled(device: torch.device, work: str, seconds: float) -> Unavailable:
    """Returns the error for calls to a device that has worked on one batch or call for `seconds`."""
    message = f"{device} is stalled: {work} has run for {seconds:.3g} s; ask another server, or try again later"
    return Unavailable(message, "DEVICE_STALLED", device=device)


def stopping() -> Unavailable:
    """Returns the error for all waiting callers when the server stops."""
    return Unavailable("the server is stopping; ask another one", "DRAINING")
