"""Tables for papers: escaped, with units, intervals and dashes."""

from bertscope_workbench.command.views.latex import latex_table

COLUMNS = ["relation", "layer", "accuracy", "low", "high", "loss", "seed_low", "seed_high"]
ROWS = [
    ["det & 50_%", 3, 0.7134, 0.66, 0.7612, -1.25, 0.7, 0.72],
    ["a\\b--c\n{x}", 11, 0.5, None, None, float("nan"), None, None],
]


def test_tables(stored) -> None:
    first = ["*bad", "[MASK]", "a---b", "''x`` ,,y", "?` !`"]
    metrics = [["loss", 0.5, 0.25, 0.75], ["accuracy", -0.5, -0.6, -0.4]]
    infinity = float("inf")
    values = (
        [123.456, 1.0],
        [1.0, 0.8333, 0.0],
        [0.0123, 0.5],
        [0.9, 2e-6],
        [1_234_567, -1],
        [True, False],
        [infinity, -infinity],
    )
    long = latex_table(["word", "p"], [["x" * 60, 0.1]] * 41)
    assert long.count("\\bottomrule") == 1
    stored(
        an_estimate_and_its_interval_are_one_column=latex_table(COLUMNS, ROWS),
        narrow=latex_table(COLUMNS[:5], [row[:5] for row in ROWS]),
        beginnings_of_rows_and_pairs_of_letters=latex_table(["text"], [[text] for text in first]),
        all_groups=latex_table(["group", "pairs"], [[None, 6], ["plural", 3]]),
        units_of_metrics=latex_table(["metric", "difference", "low", "high"], metrics),
        units_of_the_table=latex_table(["difference", "bits"], [[1.5, 1.5]], {"difference": "nats"}),
        numbers=[latex_table(["x"], [[value] for value in each]) for each in values],
        of_more_than_a_page="\n".join([*long.splitlines()[:20], *long.splitlines()[-3:]]),
    )
