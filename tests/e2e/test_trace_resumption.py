"""A trace whose server is killed goes on from its file on another server, and ends as one that nobody disturbed."""

from collections.abc import Callable
from pathlib import Path

import bertscope
import pytest

from tests.support.disturbance import ALONE
from tests.support.patience import granted
from tests.support.process import Process

pytestmark = pytest.mark.slow

CLEAN = [f"The cat sat on the [MASK] in {year}." for year in range(1900, 1960)]


def traced(client: bertscope.Client, **more: object) -> bertscope.SiteSweep:
    corrupted, answer = [bertscope.MaskedWords([(4, 7)])] * len(CLEAN), bertscope.Answer("the", "of")
    arguments = {"positions": "together", "timeout": granted(90.0), **more}
    return client.sweep_sites(CLEAN, corrupted, answer, **arguments)  # type: ignore[arg-type]


def test_a_killed_server_costs_what_it_had_not_sent(
    steady: Process, launch: Callable[..., Process], tiny: Path, tmp_path: Path
) -> None:
    with bertscope.Client(steady.target) as client:
        whole = traced(client).table()
    victim = launch("--model", f"tiny={tiny}", *ALONE)
    victim.wait_until_serving()
    with bertscope.Client(victim.target, retries=0) as client, traced(client) as running:
        while not running.done_pairs:
            next(running)
        victim.popen.kill()
        with pytest.raises(bertscope.Unavailable) as caught:
            running.table()
        cut = running.partial()
    assert 0 < len(cut.pairs) < len(CLEAN)
    assert not cut.complete and cut.interrupted == str(caught.value)
    cut.save(tmp_path / "cut.json")
    with bertscope.Client(steady.target) as client:
        resumed = traced(client, start_from=tmp_path / "cut.json").table()
    assert (resumed.complete, len(resumed.pairs)) == (True, len(CLEAN))
    for ours, theirs in zip(resumed.effects, whole.effects, strict=True):
        assert (ours.layer, ours.count, ours.ratios) == (theirs.layer, theirs.count, theirs.ratios)
        # The sums of parts are added in another order: each addition rounds to 2**-53.
        for name in ("sum", "sum_of_squares", "ratio_sum", "ratio_sum_of_squares"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-12)
