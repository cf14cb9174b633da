"""The page of a benchmark for those who decide: its verdict, its tables, its figure, and the numbers that can be read back."""

import re
from pathlib import Path

import pytest
from bertscope import BenchmarkReport
from bertscope_workbench.command.views.benchmark_page import document, html_page
from bertscope_workbench.command.views.benchmark_pdf import PAPER, pdf_page
from bertscope_workbench.command.views.benchmark_verdict import model_verdicts, verdict
from bertscope_workbench.command.views.output import json_text
from bertscope_workbench.explore.result_files.drawings import events_of
from bertscope_workbench.explore.result_files.readers import WrongFile

from tests.support import reports
from tests.support.benchmarked import report, studies

BASE = reports.model("base")
UNSCORED = reports.model("base", scores=False)
SHOWN = reports.model("sure", 2.0, kept=0.99, compression=4)
CLOSE = reports.model("close", 1.95, kept=0.98)
LOSSY = reports.model("lossy", 4.0, kept=0.7, compression=2)
SLOW = reports.model("slow", 0.5, kept=0.99)

VERDICTS = {
    "one is shown to keep enough": (
        (BASE, SHOWN, LOSSY, SLOW),
        (
            "sure is the fastest that is shown to keep 95 % of the baseline's quality by accuracy: 2.00 [1.90, 2.10] times as "
            "fast as base at 32 tokens, 4.00 times smaller, with 99.0 % [97.0, 101.0] of the baseline's quality by accuracy."
        ),
    ),
    "two can't be told apart": ((BASE, SHOWN, CLOSE), "close can't be told apart from it in speed."),
    "all lost much": (
        (BASE, LOSSY),
        (
            "No faster model is shown to keep 95 % of the baseline's quality by accuracy. lossy is the fastest: 4.00 [3.80, "
            "4.20] times as fast as base at 32 tokens, 2.00 times smaller, with 70.0 % [68.6, 71.4] of the baseline's "
            "quality by accuracy."
        ),
    ),
    "too few items": (
        (BASE, reports.model("open", 2.0, kept=0.96)),
        "of the baseline's quality by accuracy. More items to score on would tell.",
    ),
    "none is faster": ((BASE, SLOW), "No model is measurably faster than base, one text at a time, at 32 tokens."),
    "nothing scored": (
        (UNSCORED, reports.model("quick", 3.0, agreement=False, scores=False)),
        "with nothing known of what it lost. What the models lost was not measured: a file to score them on says it.",
    ),
    "predictions alone": (
        (UNSCORED, reports.model("quick", 3.0, kept=0.9, scores=False)),
        "with the same likeliest prediction at 90.0 % of 120 places.",
    ),
    "alone": ((BASE,), "Only the baseline was measured: there is nothing to decide between."),
}


@pytest.mark.parametrize(("models", "said"), VERDICTS.values(), ids=VERDICTS)
def test_the_verdict_says_what_is_shown_and_no_more(models: tuple[object, ...], said: str) -> None:
    found = verdict(report(*models))
    assert found.endswith(said), found


def test_each_model_has_a_sentence_with_every_length() -> None:
    (sure, slow) = model_verdicts(report(BASE, SHOWN, SLOW))
    assert "2.00 [1.90, 2.10] times as fast as base at 32 tokens, 2.00 [1.90, 2.10] times as fast as base at 128 tokens" in sure
    assert slow.startswith("slow is 0.50 [0.475, 0.525] times as fast as base at 32 tokens")


def benchmark() -> BenchmarkReport:
    return report(BASE, SHOWN, LOSSY, warnings=["others took </script> the processor & more"])


def test_the_page_loads_nothing_and_its_numbers_are_read_back() -> None:
    page = html_page(benchmark())
    assert "default-src 'none'" in page and not re.search(r'(src|href)="(?!data:)', page)
    assert page.count("<img") == 1 and "sure is the fastest" in page
    assert page.count("<script") == page.count("</script>") == 1 and "&lt;/script&gt; the processor &amp; more" in page
    (event,) = events_of(".html", page.encode())
    (same,) = events_of(".json", json_text(document(benchmark())).encode())
    assert event == same and event["report"]["baseline"] == "models/base"


def test_a_page_without_quality_has_no_figure() -> None:
    assert "<img" not in html_page(report(UNSCORED, reports.model("quick", 3.0, agreement=False, scores=False)))


def test_published_systems_have_a_page_too() -> None:
    table = studies(reports.study("DistilBERT", 1.5), reports.study("TinyBERT", why="it has another shape"))
    page = html_page(table)
    assert "1 of 2 published systems were measured here" in page and "TinyBERT: it has another shape" in page
    assert next(events_of(".html", page.encode()))
    assert pdf_page(table).startswith(b"%PDF")


def test_the_pdf_has_its_text_as_text_and_goes_on_over_pages(tmp_path: Path) -> None:
    one = pdf_page(benchmark())
    assert one.startswith(b"%PDF") and b"/Type3" not in one and one == pdf_page(benchmark())
    many = pdf_page(report(BASE, *(reports.model(f"model-{number}", 1 + number / 10) for number in range(30))))
    assert pages(many) > pages(one) >= 1
    assert {tuple(map(float, box.split())) for box in re.findall(rb"/MediaBox \[ ([^]]*) \]", many)} == {
        (0, 0, round(PAPER[0] * 72, 2), round(PAPER[1] * 72, 2))
    }


def pages(raw: bytes) -> int:
    return len(re.findall(rb"/Type /Page\b", raw))


def test_a_page_that_is_none_of_ours_is_refused() -> None:
    with pytest.raises(WrongFile, match="without a benchmark"):
        next(events_of(".html", b"<html></html>"))
