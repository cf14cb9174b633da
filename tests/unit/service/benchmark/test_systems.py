"""The published table, and what is built for each of its rows."""

import re

import pytest
from bertscope_service.benchmark.published import Published, published_figures
from bertscope_service.benchmark.systems import NOT_MEASURED, RECIPES, all_systems, choose_systems
from bertscope_service.errors import InvalidArgument

TECHNIQUES = {
    "baseline",
    "distillation",
    "module replacing",
    "parameter sharing",
    "pre-trained small",
    "pruning",
    "quantization",
    "token elimination",
}
HEAVY = {"McCarley 2020, ff2", "RPP", "ALBERT-xxlarge"}


def test_all_published_rows_are_there_as_they_were_printed() -> None:
    figures = published_figures()
    assert len(figures) == 26
    assert len({row.system for row in figures}) == len({row.name for row in figures}) == 26
    assert {row.technique for row in figures} == TECHNIQUES
    for row in figures:
        for value in (row.compression, row.performance, row.speedup):
            assert re.fullmatch(r"(\d+(\.\d+)?(-\d+(\.\d+)?)?)?", value), row
    distilbert = Published(
        "DistilBERT (Sanh 2019a)", "distillation", "1.5", "90", "1.6", relative_to="BERT-base", evaluated_on="GLUE, SQuAD"
    )
    assert figures[2] == distilbert
    assert figures[21].compression == "1.4-2.5" and figures[21].speedup == ""
    assert figures[25].speedup == "2-4.5" and figures[25].compression == ""


def test_every_row_is_built_or_says_why_not() -> None:
    assert {*RECIPES, *NOT_MEASURED} == {row.name for row in published_figures()}
    for system in all_systems():
        assert (system.recipe is None) == bool(system.not_measured), system.published.name
    assert NOT_MEASURED.keys() == {"WaLDORf"}


def test_none_named_means_all_in_order_and_the_heavy_ones_only_if_asked_for() -> None:
    assert choose_systems((), heavy=True) == all_systems()
    light = [system.published.name for system in choose_systems((), heavy=False)]
    assert light == [row.name for row in published_figures() if row.name not in HEAVY]


def test_names_are_matched_exactly_with_their_paper_or_without() -> None:
    chosen = choose_systems(("PoWER-BERT", "DistilBERT (Sanh 2019a)", "ALBERT-xxlarge", "Aguilar 2019, exp. 3"), heavy=False)
    names = [system.published.name for system in chosen]
    assert names == ["PoWER-BERT", "DistilBERT", "ALBERT-xxlarge", "Aguilar 2019, exp. 3"]


@pytest.mark.parametrize("name", ["distilbert", ""])
def test_an_unknown_name_is_refused_with_those_that_are_known(name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"BERT-base; BERT-small.*BiLSTM-soft.*PoWER-BERT") as caught:
        choose_systems(("GOBO", name), heavy=False)
    assert caught.value.field == "systems[1]" and caught.value.reason == "UNKNOWN_SYSTEM"


def test_a_system_named_twice_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="second time") as caught:
        choose_systems(("GOBO", "GOBO (Zadeh 2020)"), heavy=False)
    assert caught.value.field == "systems[1]"
