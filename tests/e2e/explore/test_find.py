"""The Find view: contexts of heads, neurons and words, from the first use on; links to it and from it."""

import re
from collections.abc import Callable
from pathlib import Path

import bertscope
import bertscope_workbench as workbench
import pytest
from playwright.sync_api import Page as Tab
from playwright.sync_api import expect

from tests.support.browsing import Watched

pytestmark = pytest.mark.slow

Visit = Callable[..., Watched]
EXAMPLES = Path(__file__).parents[3] / "examples" / "sentences.conllu"
HOSTILE = "<img src=x onerror=window.hurt=1>"


def rows(tab: Tab) -> list[list[str]]:
    return [row.locator("td").all_inner_texts() for row in tab.locator(".data-table tbody tr").all()]


def searched(tab: Tab, unit: str) -> None:
    """Waits until all of a unit's contexts are there."""
    expect(tab.get_by_role("heading", name=f"Contexts: {unit}", exact=True)).to_be_visible()
    expect(tab.locator(".page-footer .status-line")).to_contain_text("places, in")


def test_it_is_never_empty_and_says_what_the_client_says(visit: Visit, client: bertscope.Client) -> None:
    tab = visit("#find").tab
    searched(tab, "layer 0, head 2")  # The head that attends most to the token before.
    expect(tab.locator(".find-corpus")).to_contain_text("sentences that ship")
    tab.get_by_role("gridcell", name=re.compile("^layer 4 head 10")).click()
    searched(tab, "layer 4, head 10")
    shown = rows(tab)
    texts = tab.evaluate(
        "import('/static/js/views/find_corpus.js').then(module => module.createCorpus({api: {latest() {}}}).now().texts)"
    )
    (found,) = client.find_contexts(texts, heads={4: [10]}, places=30)
    assert [row[2:4] for row in shown] == [[place.word, place.partner] for place in found.best]
    assert [float(row[0]) for row in shown] == pytest.approx([place.value for place in found.best], rel=1e-2)
    assert shown[0][1] == texts[found.best[0].text_index]
    first = tab.locator(".data-table tbody tr").first
    expect(first.locator(".own")).to_have_text(found.best[0].word)
    expect(first.locator(".partner")).to_have_text(found.best[0].partner or "")
    assert first.locator(".context-word").count() > 4  # Every word has its value.
    expect(tab.locator(".find-sums")).to_contain_text(f"{found.count} places")
    assert tab.locator(".context-histogram rect").count() == len(found.histogram)
    expect(tab.get_by_role("gridcell", name=re.compile(r"^layer 0 head 2, mean 0\.\d+"))).to_be_visible()


def test_from_a_place_to_explore_and_back(visit: Visit) -> None:
    tab = visit("#find?unit=head:1:8").tab
    searched(tab, "layer 1, head 8")
    value, text, word, partner, *_ = rows(tab)[3]
    tab.locator("a.context").nth(3).click()
    expect(tab.locator(".sentence textarea")).to_have_value(text)
    expect(tab.get_by_role("heading", name="Layer 1, head 8")).to_be_visible()
    expect(tab.locator(".looks")).to_contain_text(
        re.compile(rf"^{word.lower()} looks at {partner.lower()} {100 * float(value):.1f}")
    )
    tab.locator(".head-grid [tabindex='0']").focus()
    for key in ("End", "Enter"):
        tab.keyboard.press(key)
    expect(tab.get_by_role("heading", name="Layer 0, head 11")).to_be_visible()
    tab.get_by_role("link", name="Where else?").click()
    searched(tab, "layer 0, head 11")


@pytest.mark.parametrize("fragment", ["sentences", "compare"])
def test_links_of_other_grids(visit: Visit, fragment: str) -> None:
    tab = visit(f"#{fragment}?at=3.1").tab
    if fragment == "sentences":
        tab.get_by_label("Sentences, or the contents of a file").fill("The cat sat.")
        tab.get_by_role("button", name="Read").click()
    tab.get_by_role("link", name=re.compile("Where else|At which words")).click()
    searched(tab, "layer 3, head 1")


def test_a_treebank_by_tag_by_tenth_and_at_a_word(visit: Visit) -> None:
    tab = visit("#find?unit=neuron:3:217&find_show=tenths").tab
    tab.get_by_label("A file of sentences").set_input_files(EXAMPLES)
    expect(tab.locator(".find-corpus")).to_contain_text("8 sentences: sentences.conllu")
    searched(tab, "layer 3, neuron 217")
    tab.get_by_label("Tag is").select_option("NOUN")
    expect(tab.locator(".data-table tbody tr").first).to_contain_text("NOUN")
    assert {row[4] for row in rows(tab)} == {"NOUN"}
    tab.get_by_label("Tag is").select_option("")
    assert {row[2].strip() for row in rows(tab)} == {str(tenth) for tenth in range(1, 11)}
    tab.get_by_role("radio", name="Best places").check(force=True)
    tab.get_by_label("Only at this word").fill("the")
    tab.get_by_label("Only at this word").press("Enter")
    expect(
        tab.locator(".data-table tbody tr td:nth-child(3)").filter(has_not_text=re.compile("^the$", re.IGNORECASE))
    ).to_have_count(0)
    assert "find_only=the" in tab.url
    tab.get_by_role("button", name="Next").click()
    searched(tab, "layer 3, neuron 218")


@pytest.mark.parametrize("fragment", ["unit=neuron:3:797&find_only=the", "unit=state:4"])
def test_the_python_of_a_state(visit: Visit, fragment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tab = visit(f"#find?{fragment}").tab
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.get_by_label("Sentences to look in, one a line").fill("He sat on the bank.\nThe bank lent the money.\nA dog barked.")
    tab.get_by_role("button", name="Look in these").click()
    expect(tab.locator(".page-footer .status-line")).to_contain_text("3 sentences, ")
    expect(tab.locator(".page-footer .status-line")).to_contain_text("places, in")
    tab.get_by_role("button", name="Copy Python").click()
    (tmp_path / "sentences.txt").write_text(tab.get_by_label("Sentences to look in, one a line").input_value())
    monkeypatch.chdir(tmp_path)
    found: dict[str, bertscope.Contexts] = {}
    exec(tab.evaluate("navigator.clipboard.readText()"), found)
    (unit,) = found["found"]
    assert [row[2] for row in rows(tab)] == [place.word for place in unit.best]
    assert [float(row[0]) for row in rows(tab)] == pytest.approx([place.value for place in unit.best], rel=1e-2, abs=1e-3)


def test_uses_of_a_word(visit: Visit) -> None:
    tab = visit("#find?unit=state:4").tab
    searched(tab, "states of layer 4")
    tab.get_by_label("A sentence").fill("He drank a glass of milk.")
    tab.get_by_label("and the word in it").fill("water")
    tab.get_by_label("and the word in it").press("Enter")
    expect(tab.locator(".reason[data-kind=error]")).to_contain_text('"The word in it": is')
    tab.get_by_label("and the word in it").fill("milk")
    tab.get_by_label("and the word in it").press("Enter")
    expect(tab.locator(".data-table tbody tr").first).to_contain_text("milk")
    expect(tab.locator(".page-footer .status-line")).to_contain_text("places, in")


def test_a_class_of_a_probe(visit: Visit, client: bertscope.Client, tmp_path: Path) -> None:
    path = tmp_path / "probes.npz"
    texts = workbench.read_probe_conllu(EXAMPLES, "upos")
    kept = bertscope.KeptProbe.of(client.train_probe(texts, layers=[2, 4], weights=True))
    kept.save(path)
    tab = visit("#layers").tab
    tab.get_by_role("link", name="Words where a probe sees a class").click()
    expect(tab.locator(".reason")).to_contain_text("Open the file first")
    tab.get_by_label("A file of probes or codes").set_input_files(path)
    searched(tab, "layer 4, class 0")
    tab.get_by_label("A file of sentences").set_input_files(EXAMPLES)
    expect(tab.locator(".find-corpus")).to_contain_text("8 sentences: sentences.conllu")
    tab.get_by_label("Class").select_option(label="VERB")
    searched(tab, f"layer 4, class {kept.labels.index('VERB')}")
    tab.get_by_label("Tag is").select_option("VERB")
    expect(tab.locator(".data-table tbody tr").first).to_contain_text("VERB")
    tab.get_by_label("A file of probes or codes").set_input_files(EXAMPLES)
    expect(tab.locator(".find-place .status-line")).to_contain_text(re.compile("not a file of"))


def test_hostile_sentences_and_links_are_harmless(visit: Visit) -> None:
    tab = visit(f"#find?unit={HOSTILE}&find_filters={HOSTILE}&find_sort={HOSTILE}&find_only={HOSTILE}").tab
    expect(tab.locator(".page-footer .status-line")).to_contain_text("places, in")
    tab.get_by_label("Sentences to look in, one a line").fill(f"{HOSTILE} and the cat.\nA second one.")
    tab.get_by_role("button", name="Look in these").click()
    tab.get_by_label("Only at this word").fill("")
    tab.get_by_label("Only at this word").press("Enter")
    expect(tab.locator("a.context").filter(has_text="onerror").first).to_be_visible()
    assert tab.evaluate("window.hurt") is None
    assert tab.locator("main img").count() == 0


def test_nothing_of_another_unit_or_corpus_is_shown(visit: Visit) -> None:
    tab = visit("#find").tab
    searched(tab, "layer 0, head 2")
    panel = tab.get_by_role("region", name="Contexts of the unit")
    tab.get_by_role("radio", name="Direction").check(force=True)
    expect(tab.locator(".reason")).to_contain_text("Open the file first")
    expect(panel.get_by_role("table")).to_be_hidden()
    assert panel.get_by_role("img").count() == 0
    tab.get_by_role("radio", name="Head").check(force=True)
    searched(tab, "layer 3, head 0")
    expect(panel.get_by_role("table")).to_be_visible()
    tab.evaluate("location.hash = '#find?unit=neuron:3:99999'")
    expect(tab.locator(".reason")).to_contain_text("99999 is out of range")
    expect(panel.get_by_role("table")).to_be_hidden()
    expect(panel.locator("[aria-busy]")).to_have_attribute("aria-busy", "false")


def test_a_new_question_empties_the_panel_at_once(visit: Visit) -> None:
    tab = visit("#find?unit=neuron:3:217").tab
    searched(tab, "layer 3, neuron 217")
    panel = tab.get_by_role("region", name="Contexts of the unit")
    held: list[object] = []
    tab.route("**/api/find", lambda route: held.append(route))  # The reply does not come.
    tab.get_by_label("A file of sentences").set_input_files(EXAMPLES)
    expect(tab.locator(".find-corpus")).to_contain_text("8 sentences: sentences.conllu")
    expect(panel.get_by_role("table")).to_be_hidden()
    expect(panel.locator("[aria-busy]")).to_have_attribute("aria-busy", "true")
    expect(panel).to_contain_text("reading 8 sentences")
    assert held
    tab.get_by_role("button", name="Stop").click()
    expect(panel).to_contain_text("Stopped.")


@pytest.mark.parametrize("unit", ["head:99:0", "foo"])
def test_a_link_to_no_unit_says_so(visit: Visit, unit: str) -> None:
    tab = visit(f"#find?unit={unit}").tab
    searched(tab, "layer 0, head 2")
    expect(tab.get_by_role("region", name="Contexts of the unit")).to_contain_text(f'has no unit "{unit}"')
    assert "unit=" not in tab.url
    tab.get_by_role("radio", name="Neuron").check(force=True)
    searched(tab, "layer 3, neuron 0")
    expect(tab.get_by_text("has no unit")).to_be_hidden()


def test_long_sentences(visit: Visit) -> None:
    tab = visit("#find?unit=head:1:8").tab
    filler = " ".join(f"and the {word} sat" for word in ("cat", "dog", "man", "girl") * 60)
    tab.get_by_label("Sentences to look in, one a line").fill(f"{filler} End.\nA cat sat here.\n{filler} Stop.")
    tab.get_by_role("button", name="Look in these").click()
    expect(tab.locator(".find-corpus")).to_contain_text("3 sentences: pasted sentences")
    searched(tab, "layer 1, head 8")
    expect(tab.locator(".find-sums")).to_contain_text("2 of 3 sentences are longer than the model reads")
    cells = [row[1] for row in rows(tab) if row[1] != "A cat sat here."]
    assert cells
    for cell in cells:
        assert "…" in cell
        assert 100 < len(cell) < 600
        assert all(part.strip() in filler for part in cell.split("…"))
    for row in tab.locator(".data-table tbody tr").all()[:5]:
        expect(row.locator(".own")).to_have_text(row.locator("td").nth(2).inner_text())
        expect(row.locator(".partner")).to_have_text(row.locator("td").nth(3).inner_text())


def test_files_that_are_no_text(visit: Visit, tmp_path: Path) -> None:
    broken, binary = tmp_path / "mine.conllu", tmp_path / "picture.txt"
    broken.write_text("1\tcat\t_\tNOUN\n\n")
    binary.write_bytes(b"\x89PNG\xff\xfe")
    tab = visit("#find").tab
    searched(tab, "layer 0, head 2")
    tab.get_by_label("A file of sentences").set_input_files(broken)
    expect(tab.locator(".find-corpus .status-line")).to_contain_text("mine.conllu, line 1")
    tab.get_by_label("A file of sentences").set_input_files(binary)
    expect(tab.locator(".find-corpus .status-line")).to_contain_text("picture.txt is not UTF-8")
    tab.goto(tab.url.replace("#find", "#sentences"))
    expect(tab.get_by_role("heading", name="Many sentences")).to_be_visible()
    tab.get_by_label("A file of sentences").and_(tab.locator("input")).set_input_files(binary)
    expect(tab.get_by_text("picture.txt is not UTF-8").first).to_be_visible()
