"""A sweep whose server is killed goes on from its file on another server, and ends as one that nobody disturbed."""

import itertools
from collections.abc import Callable
from pathlib import Path

import bertscope
import pytest

from tests.support.disturbance import ALONE
from tests.support.patience import granted
from tests.support.process import Process
from tests.support.tiny import write_checkpoint

pytestmark = pytest.mark.slow

CALL_SECONDS = granted(90.0)
TEXTS = [f"The cat sat on the old mat in {year}." for year in range(1900, 1908)]
OBJECTIVE = bertscope.MaskedLmLoss(TEXTS, seed=3)
HEADS = [(layer, head) for layer in range(2) for head in range(4)]
SETS = [
    {layer: [head for other, head in chosen if other == layer] for layer in {layer for layer, _ in chosen}}
    for size in (1, 2, 3, 4)
    for chosen in itertools.combinations(HEADS, size)
]


def sweep(client: bertscope.Client, **more: object) -> bertscope.HeadSweep:
    arguments = {"sets": SETS, "seed": 5, "confidence": 0.9, "resamples": 200, "timeout": CALL_SECONDS, **more}
    return client.sweep_heads(OBJECTIVE, **arguments)  # type: ignore[arg-type]


def test_a_killed_server_costs_what_it_had_not_sent(
    steady: Process, launch: Callable[..., Process], tiny: Path, tmp_path: Path
) -> None:
    with bertscope.Client(steady.target) as client:
        whole = sweep(client).table()
    victim = launch("--model", f"another-name={tiny}", *ALONE)
    victim.wait_until_serving()
    with bertscope.Client(victim.target) as client, sweep(client, model="another-name") as running:
        for _ in range(7):
            next(running)
        victim.popen.kill()
        with pytest.raises(bertscope.Unavailable) as caught:
            running.table()
        cut = running.partial()
    assert 7 <= cut.count < len(SETS)
    assert not cut.complete and cut.interrupted == str(caught.value)
    assert cut.effects == whole.effects[: cut.count]
    cut.save(tmp_path / "cut.json")
    with bertscope.Client(steady.target) as client:
        resumed = sweep(client, start_from=tmp_path / "cut.json").table()
    assert resumed.effects == whole.effects  # Bit for bit, intervals too.
    assert (resumed.complete, resumed.resumed, resumed.start.baseline) == (True, cut.count, whole.start.baseline)
    assert (resumed.summary.helped, resumed.summary.hurt) == (whole.summary.helped, whole.summary.hurt)
    assert resumed.summary.layer_passes < whole.summary.layer_passes


def test_a_deadline_costs_what_was_not_measured_and_a_curve_goes_on(steady: Process) -> None:
    greedy = bertscope.Greedy("best_remaining", step=1, max_removed=6)
    sets = [{layer: [head]} for layer, head in HEADS]
    with bertscope.Client(steady.target) as client:
        whole = sweep(client, sets=sets, greedy=greedy).table()
        for read in (1, 3, 5):
            with sweep(client, sets=sets, greedy=greedy) as running:
                for _ in range(read):
                    next(running)
            cut = running.partial()
            assert cut.points == whole.points[:read]
            assert sweep(client, sets=sets, greedy=greedy, start_from=cut).table().points == whole.points
        cut = late(client)
        assert cut.count < len(SETS) and cut.interrupted is not None and "time" in cut.interrupted
        assert sweep(client, start_from=cut).table().effects[: cut.count] == cut.effects


def late(client: bertscope.Client) -> bertscope.SweepTable:
    """A sweep that its deadline ended after something had come, however fast the machine is."""
    for tries in range(1, 100):
        running = sweep(client, timeout=0.05 * tries)
        try:
            running.table()
        except bertscope.DeadlineExceeded:
            try:
                return running.partial()
            except bertscope.DeadlineExceeded:
                continue
    raise AssertionError("a hundred deadlines, and none fell into the sweep")


def test_other_weights_are_refused(steady: Process, launch: Callable[..., Process], tmp_path: Path) -> None:
    other = write_checkpoint("roberta", tmp_path / "other")
    with bertscope.Client(steady.target) as client:
        with sweep(client) as running:
            next(running)
        cut = running.partial()
        assert client.load_model("other", source=str(other)).name == "models/other"
        with pytest.raises(bertscope.FailedPrecondition, match="weights digest sha256:"):
            sweep(client, model="other", start_from=cut).table()
        client.unload_model("other")
