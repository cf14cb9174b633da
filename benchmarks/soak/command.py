"""Makes mixed calls, faults and reloads for some minutes, checks every answer and watches memory."""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import bertscope
from bertscope_service.embedded import EMBEDDED_FOLDER

from benchmarks.lib.options import SEED, option, serve
from benchmarks.lib.report import Report
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import write_small_bert
from benchmarks.soak.asking import Role
from benchmarks.soak.head_questions import write_heads
from benchmarks.soak.making import MAKE_SECONDS, recipes
from benchmarks.soak.report import report_of
from benchmarks.soak.run import Outcome, Plan, find_truths, soak

OPTIONS = (
    SEED,
    serve(),
    option("--minutes", "of calls", 20.0),
    option("--callers", "calls at a time", 8),
    option("--operators", "who load, compress, prune and unload models at the same time", 3),
)
NAMES = {
    Role.EMBEDDED: "models/bertscope-mini",
    Role.ONNX: "models/bertscope-mini-onnx",
    Role.CLASSIFIER: "models/classifier",
    Role.TAGGER: "models/tagger",
    Role.RATER: "models/rater",
    Role.ANSWERER: "models/answerer",
}


def report(options: Namespace) -> Report:
    """Soaks; a wrong answer, and a call that ended unexpectedly, are faults."""
    plan = Plan(options.minutes * 60, callers=options.callers, operators=options.operators, seed=options.seed)
    return report_of(run(plan, shlex.split(options.serve)), plan)


def run(plan: Plan, flags: Sequence[str]) -> Outcome:
    """Finds the true answers with one server, then soaks another."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        heads = [f"{name}={folder}" for name, folder in write_heads(root, seed=3).items()]
        guests = {
            f"models/{which}": write_small_bert(root / which, seed=seed) for seed, which in enumerate(("first", "second"))
        }
        # Both runtimes are tested side by side; later flags win.
        common = ["--runtime", "torch", *flags, "--cache-folder", str(root / "cache")]
        making = recipes([root / which for which in ("first", "second")], NAMES[Role.EMBEDDED]) if plan.operators else []
        hosted = [f"bertscope-mini={EMBEDDED_FOLDER}", *heads]
        own = [f"{guest.removeprefix('models/')}={folder}" for guest, folder in guests.items()]
        with serving(*common, *_models(hosted + own)) as idle:
            _host_by_onnx(idle)
            truths = asyncio.run(find_truths(idle.target, NAMES, guests, making))
        with serving(*common, *_models(hosted)) as server:
            _host_by_onnx(server)
            return asyncio.run(soak(server, NAMES, truths, plan))


def _host_by_onnx(server: Running) -> None:
    """Makes a server run the embedded model by ONNX Runtime, too."""
    with bertscope.Client(server.target) as client:
        client.load_model(NAMES[Role.ONNX], source=str(EMBEDDED_FOLDER), runtime="onnx", timeout=MAKE_SECONDS)


def _models(entries: Sequence[str]) -> list[str]:
    return [part for entry in entries for part in ("--model", entry)]
