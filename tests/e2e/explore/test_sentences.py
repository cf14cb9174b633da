"""The Sentences view in a real browser."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import bertscope
import bertscope_workbench as workbench
import pytest
from playwright.sync_api import Page as Tab
from playwright.sync_api import expect

from tests.support.browsing import Watched, named

pytestmark = pytest.mark.slow

ROWS = (
    ("Paris is the capital of [MASK].", "france", "city"),
    ("The cat sat on the [MASK].", "roof", "animal"),
    ("Tokyo is the capital of [MASK].", "japan", "city"),
    ("The dog ate the [MASK].", "newspaper", "animal"),
)
HOSTILE = "<img src=x onerror=window.hurt=1>"


def opened(tab: Tab, folder: Path, *more: str) -> None:
    lines = ["text\tanswer\tkind", *("\t".join(row) for row in ROWS), *more]
    path = folder / "sentences.tsv"
    path.write_text("\n".join(lines))
    tab.get_by_label("A file of sentences").and_(tab.locator("input")).set_input_files(path)


def is_read(tab: Tab, said: str) -> None:
    expect(tab.locator(".sentences-form .status-line")).to_have_text(said)


def sentences(tab: Tab) -> list[str]:
    return [link.inner_text() for link in tab.locator(".data-table tbody a").all()]


def test_rows_are_sorted_and_filtered(visit: Callable[..., Watched], client: bertscope.Client, tmp_path: Path) -> None:
    tab = visit("#sentences").tab
    opened(tab, tmp_path, "too\tfew", f"{HOSTILE}\tx\tcity", f"{'the ' * 600}\tx\tcity")
    is_read(tab, "5 of 6 rows are read; the model rejected 1.")
    expect(tab.get_by_text("1 line of the file can't be read")).to_be_visible()
    expect(tab.get_by_text("the model reads 512")).to_be_visible()
    assert tab.evaluate("window.hurt") is None
    texts = [row[0] for row in ROWS]
    scores = {one.text: one.log_likelihood / one.scored_pieces for one in client.score_texts(texts, pieces=False)}
    golds = client.fill_mask(texts, candidates_per_text=[[row[1]] for row in ROWS])
    best = [one.masks[0].predictions[0].token for one in client.fill_mask(texts, top_k=1)]
    losses = {one.text: -one.masks[0].predictions[0].log_probability for one in golds}
    for text, word, top in zip(texts, (row[1] for row in ROWS), best, strict=True):
        row = tab.get_by_role("row").filter(has_text=text)
        numbers = (f"{losses[text]:.3f}", f"{scores[text]:.3f}".replace("-", "−"))
        for said in (word, top, "right" if top == word else "wrong", *numbers):
            expect(row).to_contain_text(said)

    tab.get_by_label("Outcome is").select_option("rejected")
    expect(tab.get_by_text("1 of 6 rows")).to_be_visible()
    tab.get_by_label("Outcome is").select_option("all")
    tab.get_by_label("Line to").fill("5")
    assert sentences(tab) == texts
    loss = tab.get_by_role("columnheader", name="Loss")
    loss.get_by_role("button").press("Enter")
    expect(loss).to_have_attribute("aria-sort", "ascending")
    assert sentences(tab) == sorted(texts, key=losses.__getitem__)
    tab.get_by_role("columnheader", name="Score").get_by_role("button").click()
    tab.get_by_role("columnheader", name="Score").get_by_role("button").click()
    assert sentences(tab) == sorted(texts, key=lambda text: -scores[text])
    tab.get_by_label("kind is").select_option("animal")
    tab.get_by_label("Outcome is").select_option("wrong")
    wrong = {text for text, (_, word, kind), top in zip(texts, ROWS, best, strict=True) if kind == "animal" and top != word}
    assert wrong
    expect(tab.get_by_text(f"0 of {len(wrong)} right, 0.0\u00a0% (95 %: 0.0\u00a0% to ")).to_be_visible()
    assert set(sentences(tab)) == wrong
    tab.get_by_label("Sentence contains").fill("DOG")
    expect(tab.get_by_text("1 of 6 rows")).to_be_visible()
    assert sentences(tab) == [ROWS[3][0]]
    link = tab.url
    tab.get_by_role("link", name=ROWS[3][0]).click()
    expect(tab.locator(".sentence textarea")).to_have_value(ROWS[3][0])
    tab.go_back()
    assert tab.url == link
    expect(tab.get_by_label("Sentence contains")).to_have_value("DOG")
    expect(tab.get_by_label("Line to")).to_have_value("5")
    assert sentences(tab) == [ROWS[3][0]]


def test_an_edited_copy_stays_beside_its_original(
    visit: Callable[..., Watched], client: bertscope.Client, tmp_path: Path
) -> None:
    tab = visit("#sentences?table_sort=-loss").tab
    opened(tab, tmp_path)
    is_read(tab, "4 of 4 rows are read.")
    edited = "Lyon is the capital of [MASK]."
    tab.get_by_role("button", name=f"Edit a copy of {ROWS[0][0]}").press("Enter")
    expect(tab.get_by_label("Edited sentence")).to_be_focused()
    tab.keyboard.press("Control+a")
    tab.keyboard.type(edited)
    tab.keyboard.press("Enter")
    copy = tab.locator("tr.below")
    expect(copy.get_by_role("link")).to_have_text(edited)
    before, after = (
        -client.fill_mask(text, candidates=["france"])[0].masks[0].predictions[0].log_probability
        for text in (ROWS[0][0], edited)
    )
    expect(copy.locator("mark")).to_have_text("Lyon")
    expect(copy).to_contain_text(f"{after:.3f} +{after - before:.3f}")
    assert sentences(tab).index(edited) == sentences(tab).index(ROWS[0][0]) + 1
    tab.get_by_role("button", name=f"Edit a copy of {edited}").click()
    tab.keyboard.press("Escape")
    expect(copy).to_have_count(1)

    tab.get_by_label(f"Choose {ROWS[0][0]}").check()
    expect(tab.get_by_role("button", name="Trace", exact=True)).to_be_disabled()
    tab.get_by_label(f"Choose {edited}").press("Space")
    expect(tab.get_by_role("heading", name="Slice: 2 rows chosen")).to_be_visible()
    tab.get_by_role("button", name="Trace", exact=True).click()
    expect(tab.get_by_label("Clean")).to_have_value(ROWS[0][0])
    expect(tab.get_by_label("Corrupted")).to_have_value(edited)
    expect(tab.get_by_label("Answer", exact=True)).to_have_value("france")
    tab.go_back()
    tab.get_by_role("button", name="Read").click()
    is_read(tab, "5 of 5 rows are read.")
    expect(copy.get_by_role("link")).to_have_text(edited)
    tab.get_by_role("button", name=f"Remove {edited}").click()
    expect(copy).to_have_count(0)
    expect(tab.get_by_role("button", name=f"Edit a copy of {ROWS[0][0]}")).to_be_focused()


def test_a_slice_goes_on(visit: Callable[..., Watched], tmp_path: Path) -> None:
    tab = visit("#sentences").tab
    opened(tab, tmp_path)
    is_read(tab, "4 of 4 rows are read.")
    tab.get_by_label("kind is").select_option("city")
    city = [row[0] for row in ROWS if row[2] == "city"]
    with tab.expect_download() as saved:
        tab.get_by_role("button", name="Save slice").click()
    path = tmp_path / saved.value.suggested_filename
    saved.value.save_as(path)
    assert [(text, list(answers)) for text, answers in workbench.read_prompts(path)] == [
        (row[0], [row[1]]) for row in ROWS if row[2] == "city"
    ]
    assert all(isinstance(json.loads(line)["score"], float) for line in path.read_text().splitlines())
    tab.get_by_role("button", name="Measure heads").click()
    expect(tab.locator(".sentence textarea")).to_have_value(city[0])
    expect(tab.get_by_label("Further sentences, one a line, each with a mask")).to_have_value(city[1])
    tab.go_back()
    tab.get_by_label("Choose all rows that are shown").check()
    tab.get_by_label("kind is").select_option("all")
    expect(tab.get_by_text("Mean over 2 sentences, up to")).to_be_visible()


def test_stop_keeps_what_there_is(visit: Callable[..., Watched]) -> None:
    tab = visit("#sentences").tab
    tab.get_by_label("Sentences, or the contents of a file").fill(
        "\n".join(f"Sentence {number} of many." for number in range(900))
    )
    tab.get_by_role("button", name="Read").click()
    expect(tab.locator(".data-table tbody td.number").filter(has_text=re.compile("^−")).first).to_be_visible()
    tab.get_by_role("button", name="Stop").click()
    is_read(tab, "Stopped.")
    expect(tab.get_by_text("900 rows", exact=True)).to_be_visible()
    assert tab.locator(".data-table tbody tr").count() == 200
    tab.get_by_role("button", name="Show 200 more").click()
    expect(tab.locator(".data-table tbody tr")).to_have_count(400)


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
    tab.get_by_label("A file of sentences").and_(tab.locator("input")).set_input_files(path)
    is_read(tab, "4 of 4 rows are read.")
    found = client.describe_attention(TEXTS).mean("previous")
    ordered = sorted(TEXTS, key=lambda text: -client.describe_attention([text]).mean("previous")[1, 8])
    best = client.fill_mask(TEXTS[0])[0].masks[0].predictions[0].token
    cell = tab.get_by_role("gridcell", name=re.compile("^layer 1 head 8,"))
    expect(cell).to_have_accessible_name(named(f"layer 1 head 8, {float(f'{found[1, 8]:.3g}'):g}"))
    tab.get_by_role("columnheader", name="Layer 1, head 8").get_by_role("button").click()
    tab.get_by_role("columnheader", name="Layer 1, head 8").get_by_role("button").click()
    assert sentences(tab) == ordered
    expect(tab.get_by_role("row").filter(has_text="capital of")).to_contain_text(best)
    tab.get_by_label("Sentence contains").fill("cat")
    one = client.describe_attention([TEXTS[1]]).mean("previous")
    expect(cell).to_have_accessible_name(named(f"layer 1 head 8, {float(f'{one[1, 8]:.3g}'):g}"))
    tab.get_by_label("Sentence contains").fill("")
    assert tab.locator(".pattern-bars rect").count() > 6
    assert tab.evaluate("window.hurt") is None
    tab.get_by_role("gridcell", name=re.compile("^layer 0 head 2,")).click()
    expect(tab.get_by_role("columnheader", name="Layer 0, head 2")).to_have_attribute("aria-sort", "descending")
    tab.get_by_role("link", name="The cat sat on the mat.").click()
    expect(tab.locator(".sentence textarea")).to_have_value("The cat sat on the mat.")
    expect(tab.get_by_role("heading", name="Layer 0, head 2")).to_be_visible()


def test_pairs_and_relations(visit: Callable[..., Watched], client: bertscope.Client, tmp_path: Path) -> None:
    tab = visit("#sentences").tab
    tab.get_by_role("radio", name="Pairs").check(force=True)
    box = tab.get_by_label("Sentences, or the contents of a file")
    box.fill("The cats sleep. | <img src=x onerror=window.hurt=1>\nShe is here.")
    tab.get_by_role("button", name="Read").click()
    expect(tab.locator("[data-kind=error]")).to_contain_text("Line 2 is no pair")
    box.fill("The cats sleep. | The cats sleeps.\nShe is here.\tShe are here.\nHe runs. | <img src=x onerror=window.hurt=1>")
    tab.get_by_role("button", name="Read").click()
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
    tab.get_by_label("A file of sentences").and_(tab.locator("input")).set_input_files(path)
    expect(tab.get_by_role("heading", name=re.compile("^det: which head finds the"))).to_be_visible()
    tab.get_by_role("button", name="nsubj").click()
    best = client.score_relations(workbench.read_conllu(path))["nsubj"].best()
    expect(tab.get_by_role("heading", name=re.compile("^nsubj: which head finds the"))).to_be_visible()
    expect(tab.get_by_text(f"Best: layer {best.layer}, head {best.head}, 100.0")).to_be_visible()
    expect(tab.get_by_text("chosen on the same sentences, so that it finds less in others")).to_be_visible()
    assert "relation=nsubj" in tab.url
    assert "sentences_kind=relations" in tab.url
