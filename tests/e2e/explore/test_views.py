"""The views Compare and Sentences in a real browser."""

import re
from collections.abc import Callable
from pathlib import Path

import bertscope
import bertscope_workbench as workbench
import pytest
from playwright.sync_api import expect

from tests.support.browsing import Watched, named

pytestmark = pytest.mark.slow

TEXT = "Paris is the capital of [MASK]."


def test_a_model_and_itself_changed(visit: Callable[..., Watched], client: bertscope.Client) -> None:
    tab = visit("#explore?changes=x1-8-9").tab
    tab.get_by_role("link", name="Compare").click()  # The changes come along.
    both = client.inspect(TEXT, top_k=8, interventions=[bertscope.zero(1, [8, 9])], compare_untouched=True)
    apart = client.compare_attention(TEXT, interventions=[bertscope.zero(1, [8, 9])]).divergence.mean()
    one, two = both.untouched_masks[0].predictions[0].token, both.masks[0].predictions[0].token
    expect(tab.locator(".headline")).to_contain_text(f"bertscope-mini writes {one}, bertscope-mini changed {two}.")
    probabilities = {entry.token: entry.probability for entry in both.masks[0].predictions}
    before = {entry.token: entry.probability for entry in both.untouched_masks[0].predictions}
    expect(tab.locator(".pair-bars li").filter(has_text=two).first).to_contain_text(
        f"{before[two] * 100:.1f} % · {probabilities[two] * 100:.1f} %"
    )
    cell = tab.get_by_role("gridcell", name=re.compile(r"^layer 2 head 8,"))
    expect(cell).to_have_accessible_name(named(f"layer 2 head 8, {float(f'{apart[2, 8]:.2g}'):g} nats apart"))
    cell.click()
    expect(tab.get_by_role("heading", name="Both maps of layer 2, head 8")).to_be_visible()
    expect(tab.locator(".attention-matrix")).to_have_count(2)
    tab.get_by_role("button", name=re.compile("Take back")).click()
    expect(tab.locator(".page-footer .status-line")).to_contain_text("This is the only model")


def test_one_model_alone_says_what_can_be_compared(visit: Callable[..., Watched]) -> None:
    tab = visit("#compare").tab
    expect(tab.locator(".attention-matrix")).to_have_count(2)
    expect(tab.get_by_text("Both sides are the same model, unchanged.")).to_be_visible()
    expect(tab.locator(".page-footer .status-line")).to_contain_text("This is the only model: load another one, under Models")
    assert "other_model" not in tab.locator("body").inner_text()


TEXTS = [
    "Paris is the capital of [MASK].",
    "The cat sat on the mat.",
    "<img src=x onerror=window.hurt=1>",
    "He gave her a book.",
]


def test_heads_over_sentences(visit: Callable[..., Watched], client: bertscope.Client, tmp_path: Path) -> None:
    tab = visit("#sentences?at=1.8&sentences_show=previous").tab
    path = tmp_path / "sentences.txt"
    path.write_text("\n".join(TEXTS))
    tab.get_by_label("A file of sentences").set_input_files(path)
    expect(tab.locator(".sentences-form .status-line")).to_have_text("4 of 4 sentences are read.")
    found = client.describe_attention(TEXTS).mean("previous")
    ordered = sorted(TEXTS, key=lambda text: -client.describe_attention([text]).mean("previous")[1, 8])
    best = client.fill_mask(TEXTS[0])[0].masks[0].predictions[0].token
    cell = tab.get_by_role("gridcell", name=re.compile("^layer 1 head 8,"))
    expect(cell).to_have_accessible_name(named(f"layer 1 head 8, {float(f'{found[1, 8]:.3g}'):g}"))
    assert [link.inner_text() for link in tab.locator(".sentences-panels ol a").all()] == ordered
    expect(tab.get_by_role("row").filter(has_text="capital of")).to_contain_text(best)
    assert tab.locator(".pattern-bars rect").count() > 6
    assert tab.evaluate("window.hurt") is None
    tab.get_by_role("gridcell", name=re.compile("^layer 0 head 2,")).click()
    expect(tab.get_by_role("heading", name="Where layer 0, head 2 does it most")).to_be_visible()
    tab.get_by_role("link", name="The cat sat on the mat.").click()
    expect(tab.locator(".sentence textarea")).to_have_value("The cat sat on the mat.")
    expect(tab.get_by_role("heading", name="Layer 0, head 2")).to_be_visible()


def test_pairs_and_relations(visit: Callable[..., Watched], client: bertscope.Client, tmp_path: Path) -> None:
    tab = visit("#sentences").tab
    tab.get_by_role("radio", name="Pairs").check(force=True)
    box = tab.get_by_label("Pairs, one a line: the right sentence, a tab or |, the other")
    box.fill("The cats sleep. | <img src=x onerror=window.hurt=1>\nShe is here.")
    tab.get_by_role("button", name="Compare").click()
    expect(tab.locator("[data-kind=note]")).to_contain_text("Line 2 is no pair")
    box.fill("The cats sleep. | The cats sleeps.\nShe is here.\tShe are here.\nHe runs. | <img src=x onerror=window.hurt=1>")
    tab.get_by_role("button", name="Compare").click()
    expect(tab.get_by_text("3 of 3 pairs are compared.").first).to_be_visible()
    found = client.compare_texts([("The cats sleep.", "The cats sleeps."), ("She is here.", "She are here.")])
    for one in found.sets:
        expect(tab.get_by_role("row").filter(has_text=str(one.texts[0]))).to_contain_text(f"{abs(one.difference):.2f}")
    assert tab.evaluate("window.hurt") is None
    tab.get_by_role("radio", name="Relations").check(force=True)
    rows = [
        "1\tThe\t_\tDET\t_\t_\t2\tdet\t_\t_",
        "2\tcat\t_\tNOUN\t_\t_\t3\tnsubj\t_\t_",
        "3\tsleeps\t_\tVERB\t_\t_\t0\troot\t_\t_",
    ]
    path = tmp_path / "treebank.conllu"
    path.write_text("\n".join(rows) + "\n\n")
    tab.get_by_label("A treebank, .conllu").set_input_files(path)
    expect(tab.get_by_role("heading", name=re.compile("^det: which head finds the"))).to_be_visible()
    tab.get_by_role("button", name="nsubj").click()
    best = client.score_relations(workbench.read_conllu(path))["nsubj"].best()
    expect(tab.get_by_role("heading", name=re.compile("^nsubj: which head finds the"))).to_be_visible()
    expect(tab.get_by_text(f"Best: layer {best.layer}, head {best.head}, 100.0")).to_be_visible()
    expect(tab.get_by_text("chosen on the same sentences, so that it finds less in others")).to_be_visible()
    assert "relation=nsubj" in tab.url
    assert "sentences_kind=relations" in tab.url
