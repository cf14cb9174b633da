"""The page of a benchmark for those who decide: its verdict, its tables, its figure, and the numbers that can be read back."""

import re

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


def pages(raw: bytes) -> int:
    return len(re.findall(rb"/Type /Page\b", raw))


def test_a_page_that_is_none_of_ours_is_refused() -> None:
    with pytest.raises(WrongFile, match="without a benchmark"):
        next(events_of(".html", b"<html></html>"))


QUICK = reports.model("quick", 3.0, agreement=False, scores=False)
VERDICTS = {
    "one is shown to keep enough": (BASE, SHOWN, LOSSY, SLOW),
    "two can't be told apart": (BASE, SHOWN, CLOSE),
    "all lost much": (BASE, LOSSY),
    "too few items": (BASE, reports.model("open", 2.0, kept=0.96)),
    "none is faster": (BASE, SLOW),
    "nothing scored": (UNSCORED, QUICK),
    "predictions alone": (UNSCORED, reports.model("quick", 3.0, kept=0.9, scores=False)),
    "alone": (BASE,),
}


def test_the_verdict_says_what_is_shown_and_no_more(stored) -> None:
    stored(
        verdicts={name: verdict(report(*models)) for name, models in VERDICTS.items()},
        of_each_model=model_verdicts(report(BASE, SHOWN, SLOW)),
        document=document(benchmark()),
    )


def text_of(page: str) -> str:
    """The words of a page, a line for each element that has any."""
    body = re.sub(r"<(style|script)\b.*?</\1>", "", page, flags=re.DOTALL)
    return "\n".join(line.strip() for line in re.sub(r"<[^>]*>", "\n", body).splitlines() if line.strip())


def test_pages_of_all_that_was_measured(stored) -> None:
    table = studies(reports.study("DistilBERT", 1.5), reports.study("TinyBERT", why="it has another shape"))
    page = html_page(table)
    assert next(events_of(".html", page.encode()))
    assert pdf_page(table).startswith(b"%PDF")
    without = html_page(report(UNSCORED, QUICK))
    assert "<img" not in without
    stored(models=text_of(html_page(benchmark())), studies=text_of(page), without_quality=text_of(without))


def test_the_pdf_has_its_text_as_text_and_goes_on_over_pages() -> None:
    many = pdf_page(report(BASE, *(reports.model(f"model-{number}", 1 + number / 10) for number in range(12))))
    assert many.startswith(b"%PDF") and b"/Type3" not in many
    assert pages(many) > 1
    assert {tuple(map(float, box.split())) for box in re.findall(rb"/MediaBox \[ ([^]]*) \]", many)} == {
        (0, 0, round(PAPER[0] * 72, 2), round(PAPER[1] * 72, 2))
    }
