"""Reproductions: their declarations, the readers of published formats, figures and verdicts."""

import dataclasses
from pathlib import Path
from typing import Any

import bertscope
import pytest
from bertscope.values.models import Model
from bertscope_workbench.papers.asking import Rejected
from bertscope_workbench.papers.claim_files import read_study, shipped_reproduction, studies
from bertscope_workbench.papers.published.drawn import plot_reproduction
from bertscope_workbench.papers.published.figures import compare_published, differences, figures_of, same_weights
from bertscope_workbench.papers.published.item_kinds import Blank, Choice, Known
from bertscope_workbench.papers.published.outcomes import Outcome, Score, WordScores, note
from bertscope_workbench.papers.published.outcomes import outcome as outcome_of
from bertscope_workbench.papers.published.readers import Questions, read_questions
from bertscope_workbench.papers.published.reproduced import Reproduced, read_all
from bertscope_workbench.papers.published.reproduction import PublishedFigure
from bertscope_workbench.papers.published.shown import sentences, tables

from tests.support.claims import STUDY, reproduction_toml
from tests.support.stored_outputs import outcome

DEFINITION = STUDY + reproduction_toml(
    "forms",
    """
reader = "table"
files = ["forms.tsv"]
ask = "choice"
groups = ["kind"]

[[claim.published]]
model = "some/model"
value = 0.5
tolerance = 0.01
source = "Table 1"
items = 4
""",
)
FORMS = "text\tright\twrong\tkind\n" + "The dogs [MASK] .\tbark\tbarks|barked\ta\n" * 3 + "A dog [MASK] .\tbarks\tbark\tb\n"
GULORDAVA = (
    "pattern\tform\tclass\ttype\tn_attr\tlen_prefix\tsent\n"
    'p\truns\tcorrect\toriginal\t0\t2\t"The ""Cat"" runs far . <eos>"\n'
    'p\trun\twrong\toriginal\t0\t2\t"The ""Cat"" runs far . <eos>"\n'
    "p\tis\tcorrect\tgenerated\t1\t1\tIt is . <eos>\n"
    "p\tare\twrong\tgenerated\t1\t1\tIt is . <eos>\n"
)
MODEL = Model(
    **{field.name: None for field in dataclasses.fields(Model)}  # type: ignore[arg-type]
    | {"name": "models/m", "source": "some/model", "precision": "fp32", "weights_digest": "sha256:1"}
    | {"revision": "1" * 40, "layers": 12, "parameters": 1000, "compression": ()}
)


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def read(study: str, claim: str, folder: Path | None = None, **more: Any) -> Questions:
    return read_questions(shipped_reproduction(study, claim), folder, more.pop("limit", None), **more)


def mine(path: str, folder: Path, **more: Any) -> dict[str, Questions]:
    found = [claim.reproduction for claim in read_study(path) if claim.reproduction is not None]
    return read_all(found, folder, more.get("limit"), more.get("vocabulary"))


def test_a_study_that_ships_is_valid_and_names_its_sources() -> None:
    for name in studies():
        claims = read_study(name)
        assert claims
        asked = [claim.reproduction for claim in claims if claim.reproduction is not None]
        assert all(published.source for reproduction in asked for published in reproduction.published)


LAMA = '{"sub_label": "Rome", "obj_label": "Italy", "uuid": "1"}\n{"sub_label": "Bonn", "obj_label": "Germany"}\n'
TEMPLATES = '{"relation": "P1", "template": "[X] is in [Y] .", "template_negated": "[X] is not in [Y] ."}\n'


def result_of(tmp_path: Path, outcomes: list[Outcome], other: list[Outcome] | None = None) -> list[Reproduced]:
    written(tmp_path / "forms.tsv", FORMS)
    (questions,) = mine(str(written(tmp_path / "mine.toml", DEFINITION)), tmp_path).values()
    reproduction, items = questions.reproduction, questions.read.items
    apart = differences(reproduction, items, outcomes, other) if other else ()
    found = []
    for model, own in ((MODEL, outcomes), (dataclasses.replace(MODEL, name="models/other", source="else"), other)):
        if own is not None:
            figures = figures_of(reproduction, items, own)
            compared = compare_published(reproduction, model, figures)
            more = {"differences": apart, "baseline": "other"} if apart and model is MODEL else {}
            given = tuple(own), tuple(figures), tuple(compared)
            found.append(Reproduced(questions, model, "nothing to compare", "", *given, **more))
    return found


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, "reproduced"),
        ({"value": 0.6}, "differs"),
        ({"items": 5}, "not compared: 4 items of 5"),
        ({"weights": "sha256:2"}, "another model"),
        ({"weights": "sha256:1", "model": "x"}, "reproduced"),
        ({"group": "none"}, "not measured"),
        ({"model": "x"}, "another model"),
        ({"model": "m"}, "not compared: a name alone (give weights)"),
        ({"shape": {"layers": (12,), "parameters": (900, 1000)}}, "reproduced"),
        ({"shape": {"layers": (24,)}}, "another model"),
        ({"shape": {"parameters": (900,)}}, "another model"),
    ],
)
def test_a_verdict_needs_the_same_weights_and_items(tmp_path: Path, change: dict[str, object], verdict: str) -> None:
    outcomes = [Outcome(right=True)] * 2 + [Outcome()] * 2
    (found,) = result_of(tmp_path, outcomes)
    published = dataclasses.replace(PublishedFigure("some/model", "accuracy", 0.5, 0.01, "Table 1", items=4), **change)  # type: ignore[arg-type]
    reproduction = dataclasses.replace(found.questions.reproduction, published=(published,))
    (compared,) = compare_published(reproduction, MODEL, found.figures)
    assert compared.verdict == verdict
    (compared,) = compare_published(reproduction, MODEL, found.figures, as_declared=False)
    assert not compared.settled


@pytest.mark.parametrize(
    "change",
    [
        {"revision": "", "source": "some/model"},
        {"revision": "", "source": "model"},
        {"revision": "", "source": "/models/some/model"},
        {"precision": "int8"},
        {"compression": (bertscope.AppliedStep("magnitude", "", {}),)},
    ],
    ids=str,
)
def test_the_name_of_a_folder_is_no_proof_of_its_weights(change: dict[str, object]) -> None:
    published, hub = PublishedFigure("some/model", "accuracy", 0.5, 0.01, "Table 1"), MODEL
    assert same_weights(published, hub)
    assert not same_weights(published, dataclasses.replace(hub, **change))  # type: ignore[arg-type]
    known = dataclasses.replace(published, weights="sha256:1")
    assert same_weights(known, dataclasses.replace(hub, **change))  # type: ignore[arg-type]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, so that no path is in what is said."""
    monkeypatch.chdir(tmp_path)
    return Path()


CHANGES = [
    ('title = "Mine"\n', ""),
    ('reader = "table"', 'reader = "tables"'),
    ('ask = "choice"', "ask = 1"),
    ('groups = ["kind"]', "groups = [1]"),
    ('groups = ["kind"]', 'group = "kind"'),
    ('ask = "choice"', 'ask = "blank"\nmetrics = ["accuracy"]'),
    ("value = 0.5", "value = 50"),
    ("value = 0.5", "value = true"),
    ("tolerance = 0.01", "tolerance = nan"),
    ('files = ["forms.tsv"]', 'files = ["/forms.tsv"]'),
    ("[[claim]]", "[[claim]"),
    ('groups = ["kind"]', 'template = "[X] and [X]"'),
    ('groups = ["kind"]', 'vocabulary = "words.txt"'),
]


def test_definitions_of_ones_own(here: Path, stored) -> None:
    written(here / "mine.toml", DEFINITION)

    def forms(text: str) -> Any:
        return mine("mine.toml", written(here / "forms.tsv", text).parent)

    def changed(change: str, to: str) -> Any:
        assert change in DEFINITION
        return outcome(lambda: read_study(str(written(here / "other.toml", DEFINITION.replace(change, to, 1)))))

    (found,) = forms(FORMS).values()
    (here / "binary.toml").write_bytes(b"\xff\xfe")
    stored(
        items=found.read.items,
        broken=[changed(*change) for change in CHANGES],
        missing=mine("mine.toml", written(here / "other" / "a", "").parent)["forms"].missing,
        refused=[
            lambda: read_study("nope"),
            lambda: read_study("binary.toml"),
            lambda: forms("text\tright\twrong\tkind\nno mask\ta\tb\tc\n"),
            lambda: forms("text\tright\twrong\tkind\na [MASK]\tb\tc||d\te\n"),
            lambda: read_study("mine.toml", ["x"]),
        ],
    )


def test_agreement_and_blimp_are_read_as_published(here: Path, stored) -> None:
    rows = "simple_inanim\tsing\tthe movie is good\tthe movie are good\nsimple\tsing\tthe cat runs\tthe cats run\n"
    path = written(here / "data" / "generated.tab", GULORDAVA)
    written(here / "marvin_linzen_dataset.tsv", rows)
    written(here / "lgd_dataset.tsv", "2\tVBZ\tthe keys to it ***mask*** here\tare\tis\n")
    line = '{"sentence_good": "A cat sleeps.", "sentence_bad": "A cat sleep.", "linguistics_term": "agreement", "UID": "one"}\n'
    written(here / "blimp" / "one.jsonl", line)
    gulordava, marvin = (read("agreement", part, here).read for part in ("gulordava", "marvin-linzen"))
    linzen, blimp = read("agreement", "linzen", here).read, read("blimp", "original", here / "blimp").read

    def again(content: bytes) -> Any:
        path.write_bytes(content)
        return outcome(lambda: read("agreement", "gulordava", here))

    stored(
        gulordava=[*gulordava.items, *gulordava.skipped.lines()],
        marvin_and_linzen=[*marvin.items, *marvin.skipped.lines()],
        linzen=linzen.items,
        blimp=blimp.items,
        refused=[again(GULORDAVA.replace("correct", "wrong").encode()), again(b"\xff\xfe")],
    )


ROLE = "item\tcontext\texpected\texp_cloze\ttarget\ttgt_cloze\ttgt_cloze(strict)\n"
NEGATED = "item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg"
DIAGNOSTICS = {
    "CPRAG-102.tsv": "item\tcontext_s1\tcontext_s2\texpected\twithin_category\tbetween_category\tconstraint\n"
    "0\tHe ran.\tHe likes\tchess\tgo\tfootball\tH\n",
    "ROLE-88.tsv": f"{ROLE}1-b\ta ghost he had \tseen|met with\t0.6\thaunted\t0\t0\n"
    "1-a\ta man it had \thaunted\t0.6\thaunted\t0.6\t0.6\n",
    "NEG-136-SIMP.tsv": f"{NEGATED}\n0\tAn ant is (a|an)\tAn ant is not (a|an)\tinsect\ttool\n",
    "NEG-136-NAT.tsv": f"{NEGATED}\tlicensing\n0\tIt is very\tIt isn't very\tsafe\tbad\tY\n",
}
PARTS = ("cprag", "cprag-sensitivity", "role", "role-sensitivity", "neg-simp-sensitivity", "neg-nat-sensitivity")


def test_diagnostics_are_read_as_published(here: Path, stored) -> None:
    for name, text in DIAGNOSTICS.items():
        written(here / name, text)
    items = {part: read("diagnostics", part, here).read.items for part in PARTS}
    written(here / "ROLE-88.tsv", "item\tcontext\texpected\ttarget\n1-a\ta man had\tseen\t \n")
    stored(items=items, refused=lambda: read("diagnostics", "role", here))


SENTENCE = '{"masked_sentences": ["Birds can [MASK] ."], "obj_label": "fly", "pred": "CapableOf"}\n'
MISPRIMED = '{"masked_sentences": ["%s"], "obj_label": "fly", "masked_misprimed": ["%s"]}\n'
BORN = '{"pred": "/people/person/place_of_birth", "sub_label": "%s", "obj_label": "Bonn", "judgments": [%s]}\n'


def test_facts_are_read_as_lama_and_pararel_publish_them(here: Path, stored) -> None:
    yes, no = ('{"rater": "1", "judgment": "%s"}' % word for word in ("yes", "no"))  # noqa: UP031  # of JSON, with braces
    rated = [("Ann", f"{yes}, {no}"), ("Ann", yes), ("Bob", f"{yes}, {no}, {no}")]
    written(here / "Google_RE" / "place_of_birth_test.jsonl", "".join(BORN % each for each in rated))
    for name in ("TREx/P1.jsonl", "TREx/P2.jsonl", "trex_lms_vocab/P1.jsonl"):
        written(here / name, LAMA)
    written(here / "relations.jsonl", TEMPLATES)
    written(here / "graphs_json" / "P1.jsonl", '{"pattern": "[X] is in [Y].", "lemma": "be"}\n{"pattern": "[X], [Y]."}\n')
    written(here / "ConceptNet" / "test.jsonl", SENTENCE + SENTENCE.replace("[MASK]", "fly"))
    primed = MISPRIMED % ("Birds can [MASK].", "Talk? Birds can [MASK].") + MISPRIMED % ("[MASK].", "Talk? [MASK].")
    written(here / "misprimed" / "TREx" / "random" / "P1_random.jsonl", primed)
    asked = {part: read("facts", part, here).read for part in ("trex", "pararel", "google-re", "conceptnet")}
    asked |= {"negated": read("negation", "trex", here).read}
    asked |= {"misprimed": read("negation", "misprimed-random", here / "misprimed").read}
    capitals = read("negation", "misprimed-capitals", limit=9)
    assert all(item.fact.primes[0] not in item.fact.objects for item in capitals.read.items if isinstance(item, Known))
    written(here / "relations.jsonl", '{"relation": "P1", "template": "[X] is in ."}\n')
    stored(
        items={name: found.items for name, found in asked.items()},
        skipped={name: found.skipped.lines() for name, found in asked.items()},
        refused=lambda: read("facts", "trex", here),
    )


def test_facts_of_languages_are_kept_apart(here: Path, stored) -> None:
    """A folder may be the one that a pattern begins with. Templates of mLAMA are not those of LAMA."""
    for language, names in (("de", ("P1", "place_of_birth")), ("en", ("P1",))):
        for name in names:
            written(here / "mlama1.1" / language / f"{name}.jsonl", LAMA)
        templates = TEMPLATES + TEMPLATES.replace("P1", "place_of_birth")
        written(here / "mlama1.1" / language / "templates.jsonl", templates)
    inside = read("facts", "mlama", here / "mlama1.1").read.items
    assert inside == read("facts", "mlama", here).read.items
    written(here / "TREx" / "P1.jsonl", LAMA)
    assert read("facts", "trex", here).read.items == []
    stored(items=inside)


def test_blanks_are_ranked_among_a_vocabulary_as_facts(here: Path, stored) -> None:
    words = written(here / "words.txt", "Italy\nFrance\n")
    found = read("capitals", "country", limit=1, vocabulary=words)
    assert found.by_facts
    stored(
        vocabulary=found.read.vocabulary,
        items=found.read.items,
        refused=lambda: read_all([shipped_reproduction("blimp", "original")], here, None, words),
    )


def test_outcomes_are_strict_and_say_why_an_item_is_skipped(stored) -> None:
    scores = WordScores(
        {("a [MASK]", "x"): Score(-1.0, 3), ("a [MASK]", "y"): Score(-1.0, 3), ("b [MASK]", "x"): Score(-2.0, 9)}
    )
    several = {"text": "a [MASK]", "words": ["z", "é"], "rejected": None, "log_probabilities": [-9.0, None]}
    note(scores, several | {"ranks": [None, None], "unwritable": ["é"]})
    note(scores, {"text": "c [MASK]", "words": ["x"], "rejected": "the text is too long"})
    items = [Choice((("a [MASK]", "x"), (f"{text} [MASK]", word))) for text, word in (("a", "y"), ("b", "x"), ("a", "z"))]
    items += [Choice(((f"{text} [MASK]", "x"), ("a [MASK]", "x"))) for text in "bc"]
    items += [Blank("a [MASK]", ("z", "y")), Blank("a [MASK]", ("é", "z"))]
    reproduction = dataclasses.replace(shipped_reproduction("capitals", "country"), mean="groups")
    blanks = [Blank("[MASK]", ("x",), (group,)) for group in "aab"]
    stored(
        outcomes=[outcome_of(item, scores) for item in items],
        shares_and_means_over_groups=figures_of(reproduction, blanks, [Outcome(rank=rank) for rank in (1, 20, 1)]),
    )


def test_figures_verdicts_and_the_comparison(tmp_path: Path, stored) -> None:
    right, wrong, tied = Outcome(right=True), Outcome(), Outcome(tied=True)
    found = result_of(tmp_path, [right, right, tied, wrong], [wrong, right, right, Outcome("too long")])
    stored(
        figures=[each.figures for each in found],
        published=[each.compared for each in found],
        differences=found[0].differences,
        lines=[line for each in found for line in sentences(each)],
        tables=tables(found),
        figure=plot_reproduction(found, dark=True),
        nothing=lambda: plot_reproduction(result_of(tmp_path, [Outcome("long")] * 4)),
    )


def test_rejected_texts_are_one_line_and_none_are_no_line() -> None:
    rejected = Rejected()
    assert rejected.lines() == []
    for word in ("long", "empty"):
        rejected(0, bertscope.InvalidArgument(f"texts[0] is {word}"))
    assert rejected.lines("pairs") == ["2 pairs that the server did not take; the first: texts[0] is long"]
