"""What probes hear of Ray: how its state is read, and how long they wait for it."""

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray.serve", reason="Ray is not installed: pip install 'ray[serve]'")

from bertscope_service.ray_serve import readiness
from bertscope_service.ray_serve.readiness import Readiness
from ray import serve
from ray.exceptions import RayError

from tests.support.patience import granted

pytestmark = pytest.mark.asyncio
BOTH = {"ours": {"a": {"RUNNING": 1}, "b": {"RUNNING": 2, "STARTING": 1}, "ingress": {"RUNNING": 1}}}


def status(applications: dict[str, dict[str, dict[str, int]]]) -> Any:
    """What `serve.status` gives: the replicas of deployments by their state."""
    return SimpleNamespace(
        applications={
            name: SimpleNamespace(deployments={one: SimpleNamespace(replica_states=states) for one, states in found.items()})
            for name, found in applications.items()
        }
    )


class Controller:
    """Ray's, which answers when it is let, with what it is told to."""

    def __init__(self) -> None:
        self.says: Any = status(BOTH)
        self.asked = 0
        self.heard = threading.Event()
        self.answers = threading.Event()
        self.answers.set()

    def status(self) -> Any:
        self.asked += 1
        self.heard.set()
        assert self.answers.wait(granted(30))
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Controller:
    ray = Controller()
    monkeypatch.setattr(serve, "status", ray.status)
    monkeypatch.setattr(serve, "get_replica_context", lambda: SimpleNamespace(app_name="ours"))
    return ray


@pytest.fixture
def ready(controller: Controller) -> Readiness:
    return Readiness(["a", "b"])


async def until(ready: Readiness, expected: bool) -> None:
    async with asyncio.timeout(granted(20)):
        while await ready.ready() is not expected:
            pass


@pytest.mark.parametrize(
    ("applications", "expected"),
    [
        (BOTH, True),
        ({"ours": BOTH["ours"] | {"b": {"STARTING": 1}}}, False),
        ({"ours": {"a": {"RUNNING": 1}}}, False),
        ({"another": BOTH["ours"]}, False),
        ({}, False),
    ],
)
async def test_every_model_needs_a_replica_that_runs(
    applications: dict[str, dict[str, dict[str, int]]], expected: bool, controller: Controller, ready: Readiness
) -> None:
    controller.says = status(applications)
    assert await ready.ready() is expected


async def test_many_probes_ask_ray_once(controller: Controller, ready: Readiness) -> None:
    assert await asyncio.gather(*(ready.ready() for _ in range(20))) == [True] * 20
    assert await ready.ready()
    assert controller.asked == 1


async def test_while_ray_is_silent_probes_hear_what_was_known_and_hold_one_thread(
    controller: Controller, ready: Readiness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "FRESH_SECONDS", 0)
    monkeypatch.setattr(readiness, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(readiness, "UNREADY_PATIENCE_SECONDS", 0.01)
    controller.answers.clear()
    assert await ready.ready() is False  # nothing is known yet
    controller.answers.set()
    await until(ready, True)
    controller.answers.clear()
    controller.says = status({})
    before = controller.asked
    async with asyncio.timeout(granted(20)):
        assert await asyncio.gather(*(ready.ready() for _ in range(20))) == [True] * 20
        assert await ready.ready()
    assert controller.asked <= before + 1
    controller.answers.set()
    await until(ready, False)


async def test_a_probe_that_leaves_ends_no_question_of_others(controller: Controller, ready: Readiness) -> None:
    controller.answers.clear()
    leaving = asyncio.create_task(ready.ready())
    await asyncio.to_thread(controller.heard.wait, granted(20))
    leaving.cancel()
    controller.answers.set()
    assert await ready.ready()
    assert controller.asked == 1


async def test_a_controller_that_is_replaced_takes_nothing_away(
    controller: Controller, ready: Readiness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "FRESH_SECONDS", 0)
    assert await ready.ready()
    controller.says = RayError("the actor died")
    assert await ready.ready()
    assert controller.asked == 2
