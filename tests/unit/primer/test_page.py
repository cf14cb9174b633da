"""The page has every claim, loads nothing, and shows a text as a text."""

import re
from typing import cast

import pytest
from bertscope import Client
from bertscope_workbench.primer.page import primer_page
from bertscope_workbench.primer.pictures import picture_svg
from bertscope_workbench.primer.pictures_data import Picture, bars, curves, grid, picture_document, read_picture
from bertscope_workbench.primer.run import run_primer

from tests.support.claims import CLAIMS, Hosted

PICTURES = [
    curves("layer", [0, 1, 2], "share", {"probe": [0.1, 0.2, float("nan")], "control": [0.1, 0.1, 0.1]}),
    bars("share", {"a <b>": 0.4, "c": float("nan")}, {"a <b>": (0.3, 0.5)}, line=0.25),
    grid([[0.1, -0.4], [float("nan"), 0.2]], "weight"),
]


@pytest.mark.parametrize("models", [["a"], ["a", "b"]])
def test_every_claim_is_there(models: list[str]) -> None:
    primer = run_primer(cast(Client, Hosted("a", "b")), CLAIMS, models=models)
    page = primer_page(primer)
    for claim in CLAIMS:
        assert f'<article id="{claim.name}">' in page
        assert f'href="#{claim.name}"' in page
    assert "A model knows &lt;something&gt;." in page
    assert "a note" in page
    assert "0.9" not in re.findall(r'<td class="number">(\S+)', page)  # shares are in percent
    assert page.count("90.0 %") >= len(models)
    assert not re.search(r"(src|href)=[\"']?(http|//)", page)
    assert "<script" not in page
    identifiers = re.findall(r'\bid="([^"]*)"', page)
    assert len(identifiers) == len(set(identifiers))


@pytest.mark.parametrize("picture", PICTURES, ids=["curves", "bars", "grid"])
def test_pictures_survive_a_file(picture: Picture) -> None:
    assert picture_svg(cast(Picture, read_picture(picture_document(picture))), "one") == picture_svg(picture, "one")
