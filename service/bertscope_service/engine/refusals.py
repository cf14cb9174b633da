"""Makes the errors for callers whose rows will not run."""

from __future__ import annotations

import torch

from bertscope_service.errors import DeadlineExceeded, Unavailable


def late() -> DeadlineExceeded:
    """Returns the error for rows whose deadline passed while they waited."""
    return DeadlineExceeded("the request waited so long that its deadline can't be met; give it more time", "DEADLINE_IN_QUEUE")


def broken(device: torch.device) -> Unavailable:
    """Returns the error for calls to a device that has failed for good."""
    return Unavailable(f"{device} has failed and needs a new server process; ask another server", "DEVICE_BROKEN")


def stalled(device: torch.device, work: str, seconds: float) -> Unavailable:
    """Returns the error for calls to a device that has worked on one batch or call for `seconds`."""
    message = f"{device} is stalled: {work} has run for {seconds:.3g} s; ask another server, or try again later"
    return Unavailable(message, "DEVICE_STALLED", device=device)
