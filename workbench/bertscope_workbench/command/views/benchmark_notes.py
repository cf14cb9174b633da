"""Formats the heading of a benchmark and the notes below its sheets."""

from __future__ import annotations

from collections.abc import Iterable

from bertscope import BenchmarkReport, Disturbances, Machine, ModelReport, StudyTable

from bertscope_workbench.command.views.output import count, plural

INTERVALS = "[low, high] is an interval over this run: it covers noise only, not bias from neighbours or from another machine"


def heading(report: BenchmarkReport) -> str:
    """Returns the compared models, and how all of them ran if that was the same."""
    runtimes = {model.provenance.runtime for model in report.models}
    how = f", all run by {runtimes.pop()}" if len(report.models) > len(runtimes) == 1 else ""
    return f"benchmark against {report.baseline}{how}"


def report_notes(report: BenchmarkReport) -> list[str]:
    """Returns notes on intervals, the machine, the libraries, and disturbances of the measurement."""
    bootstrap = report.bootstrap
    how = (
        f"{100 * bootstrap.confidence:.4g} % intervals: {bootstrap.resamples} resamples, seed {bootstrap.seed}"
        if bootstrap
        else ""
    )
    return [
        INTERVALS,
        how,
        machine_note(report.machine),
        _versions(report.models),
        f"{report.seconds:.1f} s, {disturbances_note(report.machine, report.disturbances)}",
    ]


def study_notes(table: StudyTable) -> list[str]:
    """Returns notes as `report_notes`."""
    models = [study.measured for study in table.studies if study.measured]
    summary = table.summary
    return [
        INTERVALS if models else "",
        machine_note(summary.machine),
        _versions(models),
        f"{summary.seconds:.1f} s, {disturbances_note(summary.machine, summary.disturbances)}",
    ]


def machine_note(machine: Machine) -> str:
    """Returns the machine in one line; empty for a machine that measured nothing."""
    if not machine.cores:
        return ""
    parts = [
        machine.cpu,
        plural(machine.cores, "core"),
        plural(machine.threads, "thread"),
        *machine.cpu_flags,
        *machine.gpus,
        f"{count(machine.memory_bytes, 'B')} of memory",
        machine.system,
    ]
    return ", ".join(filter(None, parts))


def disturbances_note(machine: Machine, disturbances: Disturbances) -> str:
    """Returns the disturbances of the measurement."""
    calls = disturbances.waited + disturbances.refused
    others = f"other calls: {disturbances.waited} waited, {disturbances.refused} refused" if calls else "no other calls"
    return f"{others}, other processes took {100 * machine.other_load:.0f} % of the processor"


def _versions(models: Iterable[ModelReport]) -> str:
    versions = {name: version for model in models for name, version in model.provenance.library_versions.items()}
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
