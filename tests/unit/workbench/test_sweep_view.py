"""What `bertscope sweep` prints of a table."""

from dataclasses import replace

from bertscope import CurvePoint, HeadEffect, MetricEffect, Provenance, SweepStart, SweepSummary, SweepTable
from bertscope_workbench.command.views.sweep import print_sweep

from tests.support.stored_outputs import Name, printed

SUMMARY = SweepSummary(0, 0, 3000, 9000, 2.5, Provenance("models/m", "", "torch", "cpu", "fp32", {}, "zero_based"))


def metric_effect(metric: str, difference: float, margin: float | None, p: float | None = None) -> MetricEffect:
    low, high = (None, None) if margin is None else (difference - margin, difference + margin)
    return MetricEffect(metric, 0.5 + difference, difference, low, high, p)


def table_of(differences: list[list[float]], metric: str = "accuracy", margin: float | None = 0.01) -> SweepTable:
    p = 0.04 if metric == "accuracy" else None
    effects = tuple(
        HeadEffect({layer: (head,)}, {metric: metric_effect(metric, value, margin, p)})
        for layer, row in enumerate(differences)
        for head, value in enumerate(row)
    )
    return SweepTable("zero", "heads", SweepStart({metric: 0.5}, len(effects), 7, 2, 1, 0), effects, (), SUMMARY)


VALUES = [[0.02, 0.005], [-0.03, 0.0]]


def shown(table: SweepTable, top: int = 10, width: int = 120) -> str:
    return printed(print_sweep, table, table.metric(), top, width=width)


def test_sweeps_over_heads_and_layers(stored) -> None:
    heads, losses = table_of(VALUES), table_of(VALUES, "loss")
    layers = tuple(HeadEffect({layer: (0, 1)}, {"loss": metric_effect("loss", 0.1 * layer, 0.01)}) for layer in (1, 0))
    stored(
        heads=shown(heads),
        by_loss=shown(losses),
        the_middle_left_out=[Name(shown(heads, top)) for top in (3, 1, 0)],
        divergences=shown(table_of([[0.02, 0.5], [0.3, 0.1]], "divergence"), 2),
        a_map_without_room=[Name(shown(table, 0, 16)) for table in (heads, losses)],
        layers=shown(SweepTable("zero", "layers", SweepStart({"loss": 0.5}, 2, 7, 0, 0, 0), layers, (), SUMMARY)),
        ninety_percent=shown(replace(heads, confidence=0.9)),
        small_differences=shown(table_of([[0.0000123, 0.000001]], "loss", None)),
        nothing_but_zeros=shown(table_of([[0.0]])),
        nothing_at_all=shown(table_of([])),
    )


def test_why_there_is_no_interval(stored) -> None:
    table, found = table_of([[0.02, 0.005]], margin=None), {}
    for reason in ("too_few_items", "too_few_differ", "too_few_resamples"):
        effects = tuple(
            replace(effect, metrics={name: replace(metric, no_interval=reason) for name, metric in effect.metrics.items()})
            for effect in table.effects
        )
        found[reason] = shown(replace(table, effects=effects))
    stored(**found)


def test_a_curve_shows_its_first_and_its_last_point(stored) -> None:
    """A point takes one line, and names as many heads as there is room for."""

    def curve(mode: str, *points: CurvePoint) -> SweepTable:
        return SweepTable(mode, "heads", SweepStart({"accuracy": 0.5}, len(points), 7, 0, 0, 0), (), points, SUMMARY)

    points = (
        CurvePoint(({0: (number,)},), number, number / 10, {"accuracy": metric_effect("accuracy", -number / 100, 0.01)})
        for number in range(11)
    )
    every = tuple({0: (name,)} for name in range(20))
    wide = curve("zero", CurvePoint(every, 20, 0.5, {"accuracy": metric_effect("accuracy", -0.1, 0.01)}))
    stored(curve=shown(curve("mean", *points), 3), widths=[Name(shown(wide, width=width)) for width in (120, 80, 66)])
