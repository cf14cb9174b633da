"""What the page shows belongs to what stands in its inputs, in a real browser: another model, a refused question, an empty
sentence; and what it says, and shows first, is for people."""

import re
from collections.abc import Callable, Iterator

import bertscope
import pytest
from playwright.sync_api import Page as Tab
from playwright.sync_api import expect

from tests.support.browsing import Watched
from tests.support.page import Page
from tests.support.process import Process

pytestmark = pytest.mark.slow

Visit = Callable[..., Watched]
KEYS = "The keys to the cabinet [MASK] on the table."
STALE = re.compile("stale")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server with the embedded model and its first three layers listens, HOST:PORT."""
    with Process(tmp_path_factory.mktemp("two")) as process:
        process.wait_until_serving()
        with bertscope.Client(process.target) as client:
            client.compress_model("three-layers", bertscope.keep_layers([0, 1, 2]))
        yield process.target


@pytest.fixture(scope="module")
def two(both: str) -> Iterator[Page]:
    """The page over both models."""
    with Page(both) as page:
        yield page


def choose(tab: Tab, model: str) -> None:
    tab.locator("#model").select_option(model)


def test_a_refused_model_shows_nothing_of_the_one_before(visit: Visit, two: Page, both: str) -> None:
    tab = visit("#explore?changes=x5-1", of=two).tab
    predictions = tab.get_by_role("region", name="Predictions")
    expect(tab.locator(".looks")).to_contain_text("looks at")
    choose(tab, "three-layers")
    reason = tab.locator(".reason")
    expect(reason).to_have_text(
        '"Changed heads": layer 5 is out of range: three-layers has layers 0 to 2. What is grey answers the question before.'
    )
    assert reason.bounding_box()["y"] < predictions.bounding_box()["y"]
    for results in (predictions, tab.locator(".head-grid"), tab.locator(".head-drawing"), tab.locator(".looks")):
        expect(results).to_have_class(STALE)
    tab.get_by_role("button", name="Take back: 5:1 silenced").click()
    with bertscope.Client(both) as client:
        (found,) = client.fill_mask(KEYS, model="three-layers")
    expect(tab.locator(".headline")).to_contain_text(found.masks[0].predictions[0].token)
    expect(predictions).not_to_have_class(STALE)
    expect(reason).to_be_hidden()
    expect(tab.locator(".head")).to_have_count(36)


def test_a_comparison_begins_with_another_model_and_keeps_the_same_one_if_chosen(visit: Visit, two: Page) -> None:
    tab = visit("#compare", of=two).tab
    other, status = tab.get_by_label("The other model"), tab.locator(".page-footer .status-line")
    expect(tab.locator(".pair-maps h3")).to_have_text(["bertscope-mini", "three-layers"])
    expect(other).to_have_value("three-layers")
    expect(status).to_contain_text("compared in")
    other.select_option("bertscope-mini")
    expect(status).to_contain_text("Choose another model")
    expect(tab.locator(".pair-maps h3")).to_have_text(["bertscope-mini", "bertscope-mini"])


@pytest.mark.parametrize(
    ("view", "question", "results"),
    [
        ("explore", "inspect", "section[aria-label=Predictions]"),
        ("compare", "compare", ".predictions"),
        ("layers", "lens", ".word-grid"),
        ("trace", "trace", ".word-grid"),
    ],
)
def test_results_are_grey_until_they_are_the_chosen_models(
    visit: Visit, two: Page, view: str, question: str, results: str
) -> None:
    """The answer is held back: what is shown is of the model before."""
    tab = visit(f"#{view}", of=two).tab
    shown = tab.locator(results)
    expect(tab.locator(".page-footer .status-line")).not_to_be_empty()
    expect(shown).not_to_have_class(STALE)
    tab.route(f"**/api/{question}", lambda _: None)
    choose(tab, "three-layers")
    expect(shown).to_have_class(STALE)
    expect(shown).to_have_attribute("aria-busy", "true")
    tab.unroute(f"**/api/{question}")
    expect(shown).not_to_have_class(STALE)


def test_a_refused_trace_is_grey_with_its_reason_and_fields_can_be_emptied(visit: Visit) -> None:
    tab = visit("#trace").tab
    expect(tab.locator(".page-footer .status-line")).to_contain_text("places in")
    corrupted = tab.get_by_label("Corrupted", exact=True)
    corrupted.fill("The big key to the old cabinet [MASK] on the table.")
    expect(tab.locator(".reason").first).to_contain_text('"Corrupted" has 14 tokens and the clean text 13')
    for results in (".word-grid", ".trace-pair >> xpath=.."):
        expect(tab.locator(results)).to_have_class(STALE)
    corrupted.fill("")
    expect(tab.locator(".reason").first).to_contain_text("Write both sentences")
    expect(tab.locator(".word-grid")).to_be_hidden()
    corrupted.press_sequentially("The key to the old cabinet [MASK] on the table.", delay=5)
    expect(tab.get_by_role("columnheader", name="keys / key")).to_be_visible()
    expect(tab.locator(".word-grid")).not_to_have_class(STALE)
    expect(tab.locator(".reason").first).to_be_hidden()
    assert "traceother=The+key" in tab.url
    tab.get_by_text("Break", exact=True).click()
    expect(tab.get_by_label("The model with one place patched")).to_contain_text('of "The keys to the old cabinet')


def test_an_empty_sentence_stays_empty(visit: Visit) -> None:
    for view in ("explore", "layers"):
        tab = visit(f"#{view}?text=A+[MASK].").tab
        box = tab.locator(".sentence textarea")
        expect(tab.locator(".page-footer .status-line")).not_to_be_empty()
        box.fill("")
        expect(tab.locator(".reason")).to_contain_text("Write a sentence")
        expect(box).to_have_value("")
        assert tab.url.endswith("?text=")
        tab.reload()
        expect(tab.locator(".reason")).to_contain_text("Write a sentence")
        expect(tab.locator(".bars, .word-grid").locator("visible=true")).to_have_count(0)
        box.press_sequentially("He is a professional football [MASK].", delay=5)
        expect(box).to_have_value("He is a professional football [MASK].")
        expect(tab.locator(".panel").locator("visible=true").first).to_contain_text("player")


def test_the_first_answer_and_what_the_tour_does_to_it(visit: Visit, two: Page) -> None:
    tab = visit("#explore", of=two, tour=True, width=1280).tab
    expect(tab.locator(".headline")).to_contain_text("are 71.2 %")
    assert tab.locator(".page-header").bounding_box()["height"] < 60
    for _ in range(3):
        tab.get_by_role("button", name="Next").click()
    tab.get_by_role("button", name="Silence head 1 of layer 3 and head 10 of layer 4").click()
    expect(tab.locator(".headline")).to_contain_text("is 32.2 %")
    choose(tab, "three-layers")  # What the tour says of heads is of the chosen model, too.
    expect(tab.locator(".tour")).to_contain_text("looks at the token after")


def test_many_sentences_belong_to_the_model_that_read_them(visit: Visit, two: Page) -> None:
    tab = visit("#sentences", of=two).tab
    tab.get_by_role("button", name="Example").click()
    status = tab.locator(".sentences-form .status-line")
    expect(status).to_have_text("4 of 4 rows are read.")
    expect(tab.get_by_label("Read as")).to_have_value(".tsv")  # As what is pasted from a spreadsheet is.
    expect(tab.locator(".data-table tbody tr").first).to_contain_text("right")
    results = tab.locator(".sentences-form + div")
    expect(results).not_to_have_class(STALE)
    choose(tab, "three-layers")
    expect(results).to_have_class(STALE)
    expect(tab.get_by_text("What is grey below was read of other texts, or by another model")).to_be_visible()
    tab.get_by_role("button", name="Read").click()
    expect(results).not_to_have_class(STALE)
    expect(tab.get_by_text("read by three-layers")).to_be_visible()

    tab.get_by_role("radio", name="Pairs").check(force=True)
    box = tab.get_by_label("Sentences, or the contents of a file")
    box.fill("field\tbad\tgood\nnumber\tThe cats sleeps.\tThe cats sleep.")
    tab.get_by_role("button", name="Read").click()
    expect(status).to_have_text("1 of 1 pairs are compared.")
    expect(tab.locator(".pairs-compared tbody tr td").first).to_have_text("The cats sleep.")
    box.fill("no pair")
    expect(results).to_have_class(STALE)

    tab.goto(tab.url.replace("sentences_kind=pairs", "sentences_kind=relations&at=0.0"))
    box.fill("")
    tab.get_by_role("button", name="Example").click()
    expect(status).to_contain_text("sentences are scored")
    found = re.search(
        r"Layer (\d+), head (\d+): .*Best: layer (\d+), head (\d+)", tab.locator(".sentences-panels p").first.inner_text()
    )
    assert found
    assert found.group(1, 2) == found.group(3, 4)  # The head shown is the relation's best one, not one of another view.


def test_models_of_other_shapes_say_what_can_be_compared(visit: Visit, two: Page) -> None:
    tab = visit("#compare?other=three-layers&at=5.1", of=two).tab
    panel = tab.get_by_role("region", name="Where their attention differs")
    expect(panel).to_contain_text("they have 6 and 3 layers")
    expect(panel).to_contain_text("compare by their best heads (Sentences, Relations)")
    assert not re.search("other_model|ScoreRelations|models/", panel.inner_text())
    tab.goto(tab.url.replace("three-layers", "bertscope-mini"))
    tab.locator("#view").evaluate("() => location.reload()")
    tab.get_by_role("button", name="Example: silence heads on one side").click()
    expect(panel).to_contain_text("Jensen-Shannon divergence")


def test_messages_have_no_names_of_fields(visit: Visit) -> None:
    tab = visit("#models").tab
    for message, said in {
        "contents: mine.conllu, line 1: has 4 columns": '"The text or file": mine.conllu, line 1: has 4 columns',
        "pairs[0].target.mask.other has 3 pieces, and": '"Instead of" has 3 pieces, and',
        "maps[0].heads[0].layer: layer 9 is out of range": '"The head shown": layer 9 is out of range',
        "texts[0].text.input.text is empty; write some text": '"Sentences" is empty; write some text',
        "model 'models/nope' is not loaded": "model 'nope' is not loaded",
        "<b>answers[0]</b> is no field": "<b>answers[0]</b> is no field",
    }.items():
        assert tab.evaluate("message => import('/static/js/fields.js').then(({said}) => said(message))", message) == said
