"""Calls the replicas of a model, and another one when one is lost."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from ray.exceptions import NodeDiedError, ObjectLostError, RayActorError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError

from bertscope_service.errors import Overloaded, Unavailable
from bertscope_service.ray_serve.calls import Question, Refusal

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle

logger = logging.getLogger(__name__)

ATTEMPTS = 3
"""At most this many replicas are called, one after the other, while they are lost: all forwarded methods only read. With more,
a request that crashes replicas would crash all of them."""

LOST = (RayActorError, ObjectLostError, NodeDiedError)
"""Ray's errors when a replica is gone, or its node, which kept large parts of a reply."""

RETRY_SECONDS = 1.0
"""The retry delay for callers when no replica has room."""


async def ask(model: DeploymentHandle[Any], question: Question) -> bytes | Refusal:
    """Returns the reply of one replica. Raises Unavailable, Overloaded."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            answer: bytes | Refusal = await model.ask.remote(question)
            return answer
        except LOST:
            _note_loss(model, attempt)
        except (BackPressureError, DeploymentUnavailableError) as error:
            raise _rejected(error) from error
    raise _lost()


async def stream(model: DeploymentHandle[Any], question: Question) -> AsyncGenerator[bytes | Refusal, None]:
    """Yields the replies of one replica; another one is called until there is a first reply. Raises Unavailable, Overloaded."""
    for attempt in range(1, ATTEMPTS + 1):
        answers: Any = model.options(stream=True).stream.remote(question)
        began = False
        try:
            async for answer in answers:
                began = True
                yield answer
            return
        except LOST as error:
            _note_loss(model, attempt)
            if began:
                raise _lost() from error
        except (BackPressureError, DeploymentUnavailableError) as error:
            raise _rejected(error) from error
        finally:
            # Has no effect once the stream is over; else nobody reads the rest.
            answers.cancel()
    raise _lost()


def _note_loss(model: DeploymentHandle[Any], attempt: int) -> None:
    logger.warning("a replica of %s was lost with a call on it (attempt %d of %d)", model.deployment_name, attempt, ATTEMPTS)


def _lost() -> Unavailable:
    return Unavailable("the replica that worked for this call was lost; ask again", "REPLICA_LOST")


def _rejected(error: BackPressureError | DeploymentUnavailableError) -> Overloaded | Unavailable:
    if isinstance(error, BackPressureError):
        message = "as many calls wait for replicas of this model as are let wait; try again later"
        return Overloaded(message, "REPLICAS_BUSY", RETRY_SECONDS)
    return Unavailable("replicas of this model can't be started; Ray's log says why", "NO_REPLICAS")
