"""The page has every claim, loads nothing, and shows a text as a text."""

import re
from typing import cast

import pytest
from bertscope import Client
from bertscope_workbench.papers.estimates import Measured
from bertscope_workbench.papers.page import claims_page
from bertscope_workbench.papers.pictures import picture_svg
from bertscope_workbench.papers.pictures_data import Picture, bars, curves, grid, picture_document, read_picture
from bertscope_workbench.papers.run import run_claims
from bertscope_workbench.papers.wording import interval

from tests.support.claims import CLAIMS, Hosted

PICTURES = [
    curves("layer", [0, 1, 2], "share", {"probe": [0.1, 0.2, float("nan")], "control": [0.1, 0.1, 0.1]}),
    bars("share", {"a <b>": 0.4, "c": float("nan")}, {"a <b>": (0.3, 0.5)}, line=0.25),
    grid([[0.1, -0.4], [float("nan"), 0.2]], "weight"),
]


@pytest.mark.parametrize("models", [["a"], ["a", "b"]])
def test_every_claim_is_there(models: list[str]) -> None:
    primer = run_claims(cast(Client, Hosted("a", "b")), CLAIMS, models=models)
    page = claims_page(primer)
    for claim in CLAIMS:
        assert f'<article id="{claim.name}">' in page
        assert f'href="#{claim.name}"' in page
    assert "A model knows &lt;something&gt;." in page
    assert "a note" in page
    assert re.search(r"items, p (=|&lt;|<) 0\.\d{4}<", page)
    assert "0.9" not in re.findall(r'<td class="number">(\S+)', page)  # shares are in percent
    assert page.count("90.0 %") >= len(models)
    assert not re.search(r"(src|href)=[\"']?(http|//)", page)
    assert "<script" not in page
    identifiers = re.findall(r'\bid="([^"]*)"', page)
    assert len(identifiers) == len(set(identifiers))


def test_words_of_a_figure_fit_light_and_dark_pages_and_empty_bars_have_numbers() -> None:
    assert "weight; the strongest colour: 0.4, orange below 0" in picture_svg(PICTURES[2], "one")
    assert ">0</text>" in picture_svg(bars("weight", {"none": 0.0}, line=-5), "one")


@pytest.mark.parametrize("picture", PICTURES, ids=["curves", "bars", "grid"])
def test_pictures_survive_a_file(picture: Picture) -> None:
    assert picture_svg(cast(Picture, read_picture(picture_document(picture))), "one") == picture_svg(picture, "one")


def test_wide_grids_name_every_second_column_and_curves_make_room_for_their_names() -> None:
    svg = picture_svg(grid([[0.1] * 20, [0.2] * 20], "weight"), "one")
    assert [name for name in map(str, range(20)) if f">{name}</text>" in svg] == ["0", "1", *map(str, range(2, 20, 2))]
    few, many = (curves("layer", [0, 1], "share", {str(line): [0.1, 0.2] for line in range(count)}) for count in (3, 8))
    heights = [float(re.findall(r'viewBox="0 0 [\d.]+ ([\d.]+)"', picture_svg(each, "one"))[0]) for each in (few, many)]
    assert heights == [pytest.approx(72 * 3.1), pytest.approx(72 * 4.1)]


@pytest.mark.parametrize(
    ("unit", "control", "said"),
    [
        ("share", 0.5, "+25.0 [+20.0, +30.0] points"),
        ("share", None, "+25.0 [+20.0, +30.0] %"),
        ("nats", 0.5, "+0.250 [+0.200, +0.300]"),
    ],
)
def test_shares_beside_a_control_differ_by_points(unit: str, control: float | None, said: str) -> None:
    assert interval(Measured(0.75, control, 0.25, 0.2, 0.3, 50, "made", "made"), unit) == said
