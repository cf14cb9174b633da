"""Tracks the jobs in flight on a device, so that each gets an error when the device fails."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from bertscope_service.engine.lease import Call
from bertscope_service.engine.rows import Job, fail_job
from bertscope_service.errors import ServiceError

ATTEMPTS = 20
PAUSE_SECONDS = 0.05
"""A step that found no memory is tried again after this time: failed work frees some."""

logger = logging.getLogger("bertscope.devices")
"""A logger outside our modules' namespace, whose formatter would write an error's message, which may quote a text."""


class JobsInFlight:
    """The admitted jobs that have no answer yet, and the lease's running call.

    Jobs come and go on the event loop, and the device's thread may read them at any time: changing and copying a set are
    atomic.
    """

    def __init__(self) -> None:
        self._jobs: set[Job] = set()
        self.call: Call | None = None
        """The lease's running call; set by the device's thread."""

    def add(self, job: Job) -> None:
        """Adds an admitted job."""
        self._jobs.add(job)

    def remove(self, job: Job) -> None:
        """Removes a job that nobody waits for, or that was never admitted."""
        self._jobs.discard(job)

    def jobs(self) -> set[Job]:
        """Returns the admitted jobs."""
        return self._jobs.copy()

    def fail(self, why: Callable[[], ServiceError], calls: Sequence[Call]) -> None:
        """Fails all jobs, the running call and others of the lease, from any thread; an error at one does not stop the rest."""
        for job in self.jobs():
            ensure(lambda job=job: fail_job(job, why()))  # type: ignore[misc]
        for call in (self.call, *calls):
            if call is not None:
                ensure(lambda call=call: call.refuse(why()))  # type: ignore[misc]


def ensure(step: Callable[[], object]) -> None:
    """Runs a step that must not be skipped, and retries it if there is no memory for it. Raises nothing."""
    for _ in range(ATTEMPTS):
        try:
            step()
        except MemoryError:
            time.sleep(PAUSE_SECONDS)
        except BaseException as error:  # noqa: BLE001 - the following steps must run as well
            _log(error)
            return
        else:
            return


def _log(error: BaseException) -> None:
    try:
        logger.critical("a step of reporting a device's failure failed", exc_info=error)
    except BaseException:  # noqa: BLE001 - there is nowhere left to report it
        return
