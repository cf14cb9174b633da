"""Asks all claims of the embedded model in both runtimes, and simulates wrong verdicts.

`python -m benchmarks primer` prints the verdicts side by side with the time of each, and says whether both runtimes agree. Then
it draws items anew from those of each test: moved so that the truth lies exactly on the threshold, where any verdict is wrong;
and as they are, where the other verdict than that of the whole is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import bertscope
import numpy as np
from bertscope_service.embedded import EMBEDDED_FOLDER
from bertscope_workbench.command.views.progress import asking_claims
from bertscope_workbench.papers.claim import ClaimTest
from bertscope_workbench.papers.claim_files import read_claims
from bertscope_workbench.papers.documents import claims_document
from bertscope_workbench.papers.estimates import Measured, paired, shares
from bertscope_workbench.papers.page import claims_page
from bertscope_workbench.papers.run import ClaimsRun, run_claims
from bertscope_workbench.papers.verdicts import FAILS, HOLDS, judge
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.lib.measure import machine
from benchmarks.lib.serving import serving

TORCH, ONNX = "pytorch", "onnx"


def main(arguments: Sequence[str]) -> int:
    """Prints the tables; exit status 1 if the runtimes disagree."""
    options = _parser().parse_args(arguments)
    claims = read_claims(only=options.only or ())
    with (
        serving("--runtime=torch", f"--model={TORCH}={EMBEDDED_FOLDER}") as server,
        bertscope.Client(server.target) as client,
        asking_claims() as show,
    ):
        client.load_model(ONNX, source=str(EMBEDDED_FOLDER), runtime="onnx")
        primer = run_claims(client, claims, models=[TORCH, ONNX], on_progress=show)
    console = Console(width=None if sys.stdout.isatty() else 180)
    console.print(verdict_table(primer))
    differing = differences(primer)
    if options.output:
        options.output.write_text(claims_page(primer), "utf-8")
        options.output.with_suffix(".json").write_text(json.dumps(claims_document(primer)), "utf-8")
    if options.simulations:
        console.print(simulation_table(primer, options.simulations))
    for line in (f"verdicts that differ between the runtimes: {', '.join(differing) or 'none'}", machine()):
        console.print(line, highlight=False, markup=False)
    return int(bool(differing))


def verdict_table(primer: ClaimsRun) -> Table:
    """Returns the verdict on each claim by model, and the seconds that the first took."""
    names = [results.model.name.removeprefix("models/") for results in primer.models]
    table = Table("section", "claim", *names, "seconds")
    for place, claim in enumerate(primer.claims):
        judged = [results.claims[place] for results in primer.models]
        seconds = sum(test.seconds for test in judged[0].tests)
        table.add_row(claim.section, claim.title, *(each.verdict for each in judged), f"{seconds:.1f}")
    totals = [sum(test.seconds for claim in results.claims for test in claim.tests) for results in primer.models]
    table.add_row("", "seconds in all", *(f"{total:.0f}" for total in totals), "", style="bold")
    return table


def differences(primer: ClaimsRun) -> list[str]:
    """Returns the claims that have another verdict in the other runtime."""
    torch_model, onnx_model = primer.models
    pairs = zip(torch_model.claims, onnx_model.claims, strict=True)
    return [ours.claim.name for ours, theirs in pairs if ours.verdict != theirs.verdict]


def simulation_table(primer: ClaimsRun, simulations: int) -> Table:
    """Returns how often verdicts are wrong at the shipped sizes, for each test of the first model whose number is a mean."""
    title = f"wrong verdicts in {simulations} simulated samples of each test"
    table = Table("claim", "test", "items", "holds on the threshold", "fails on the threshold", "as measured: another verdict")
    table.title = title
    rates = []
    for claim in primer.models[0].claims:
        for judged in claim.tests:
            if judged.measured is None or len(set(judged.measured.differences)) < 2:
                continue
            rate = wrong_verdicts(judged.test, judged.measured, simulations)
            rates.append(rate)
            cells = [f"{100 * each:.1f} %" for each in rate]
            table.add_row(claim.claim.name, judged.test.name, str(judged.measured.items), *cells)
    if rates:
        table.add_row("all", "mean", "", *(f"{100 * each:.1f} %" for each in np.mean(rates, axis=0)), style="bold")
        table.add_row("all", "worst", "", *(f"{100 * each:.1f} %" for each in np.max(rates, axis=0)), style="bold")
    return table


def wrong_verdicts(test: ClaimTest, measured: Measured, simulations: int) -> tuple[float, float, float]:
    """Returns the share of samples that hold, and that fail, where the truth lies on the threshold; and the share with the
    wrong one of both where the truth is what was measured."""
    generator, values = np.random.default_rng(0), np.array(measured.differences)
    moved = on_threshold(measured, test.threshold)
    edge = [judge(test, sampled(measured, moved, generator)).verdict for _ in range(simulations)]
    truth = HOLDS if (values.mean() > test.threshold) == (test.holds == "above") else FAILS
    other = FAILS if truth == HOLDS else HOLDS
    own = [judge(test, sampled(measured, values, generator)).verdict for _ in range(simulations)]
    return edge.count(HOLDS) / simulations, edge.count(FAILS) / simulations, own.count(other) / simulations


def on_threshold(measured: Measured, threshold: float) -> NDArray[np.float64]:
    """Returns the items' differences with the threshold as their mean: shares by another probability, others moved."""
    values: NDArray[np.float64] = np.array(measured.differences)
    if not _of_shares(measured):
        moved: NDArray[np.float64] = values - values.mean() + threshold
        return moved
    base = measured.control or 0.0
    hits = round(min(max(base + threshold, 0.0), 1.0) * 10_000)
    repeated: NDArray[np.float64] = np.repeat(np.array([1 - base, -base]), [hits, 10_000 - hits])
    return repeated


def sampled(measured: Measured, values: NDArray[np.float64], generator: np.random.Generator) -> Measured:
    """Returns the measurement of as many items, drawn from these with replacement."""
    drawn = generator.choice(values, measured.items)
    if _of_shares(measured):
        return shares(drawn > 0, measured.control, data="drawn")
    return replace(paired(drawn, data="drawn"), control=measured.control)


def _of_shares(measured: Measured) -> bool:
    return measured.interval.startswith("Wilson")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks primer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", help="ask this claim or section alone; repeatable")
    parser.add_argument("--simulations", type=int, default=200, help="samples of each test; 0: none")
    parser.add_argument("--output", type=Path, help="write this page and its .json, too")
    return parser
