"""Declared studies: their definitions, the readers of published formats, figures and verdicts."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import bertscope
import pytest
from bertscope.questions.facts.questions import Fact, FactRelation, templates_of
from bertscope.values.models import Model
from bertscope_workbench.studies.asking import Outcome, Score, WordScores, note, outcome
from bertscope_workbench.studies.declared import Answers, PartResult
from bertscope_workbench.studies.declared_page import comparison_lines, difference_table, figures_table, left_out, verdict_line
from bertscope_workbench.studies.definition import Published, shipped
from bertscope_workbench.studies.group_figures import plot_part
from bertscope_workbench.studies.items import Blank, Choice, Known, Pair, Skipped
from bertscope_workbench.studies.measures import compare, judge, measures, same_weights
from bertscope_workbench.studies.readers import Questions, find_study, read_questions

DEFINITION = """
title = "Mine"
paper = "None"

[[part]]
name = "forms"
title = "Forms"
asked = "Which form?"
definition = "The likelier one."
reader = "table"
files = ["forms.tsv"]
ask = "choice"
groups = ["kind"]

[[part.published]]
model = "some/model"
value = 0.5
tolerance = 0.01
source = "Table 1"
items = 4
"""
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


def read(study: str, part: str, folder: Path) -> Questions:
    (found,) = read_questions(find_study(study), folder, only=[part])
    return found


@pytest.mark.parametrize("name", list(shipped()))
def test_a_shipped_definition_is_valid_and_names_its_sources(name: str) -> None:
    definition = find_study(name)
    assert definition.parts
    assert all(published.source for part in definition.parts for published in part.published)


@pytest.mark.parametrize(
    ("change", "to", "message"),
    [
        ('title = "Mine"\n', "", r'title = "\.\.\."'),
        ('reader = "table"', 'reader = "tables"', "'tables' is not known; write one of table, "),
        ('ask = "choice"', "ask = 1", "with one of choice, pair, association, blank, fact"),
        ('groups = ["kind"]', "groups = [1]", "must be a list of texts"),
        ('groups = ["kind"]', 'group = "kind"', "is not a key that is read here"),
        ('ask = "choice"', 'ask = "blank"\nmetrics = ["accuracy"]', "'accuracy' is not measured of a blank; write p@1"),
        ("value = 0.5", "value = 50", "write 0.833 for 83.3 %"),
        ("value = 0.5", "value = true", "must be value = 0.5"),
        ("[[part]]", "[[part]", "is not TOML"),
        ('groups = ["kind"]', 'template = "[X] and [X]"', r"needs \[X\] for the subject and \[Y\]"),
        ('groups = ["kind"]', 'vocabulary = "words.txt"', "goes with blanks, and with facts without candidates"),
    ],
)
def test_a_broken_definition_is_one_line_with_the_remedy(tmp_path: Path, change: str, to: str, message: str) -> None:
    path = written(tmp_path / "mine.toml", DEFINITION.replace(change, to, 1))
    with pytest.raises(bertscope.InvalidArgument, match=message) as caught:
        find_study(str(path))
    assert caught.value.field_violations[0].field.startswith(str(path))
    assert "\n" not in str(caught.value)


def test_an_unknown_study_names_the_known_ones() -> None:
    with pytest.raises(bertscope.InvalidArgument, match="'nope' is no study; these are: agreement, "):
        find_study("nope")


def test_a_definition_of_ones_own_reads_a_table(tmp_path: Path) -> None:
    written(tmp_path / "forms.tsv", FORMS)
    (found,) = read_questions(find_study(str(written(tmp_path / "mine.toml", DEFINITION))), tmp_path)
    text = "The dogs [MASK] ."
    assert found.read.items[0] == Choice(((text, "bark"), (text, "barks"), (text, "barked")), ("a",))
    assert len(found.read.items) == 4
    written(tmp_path / "forms.tsv", "text\tright\twrong\tkind\nno mask\ta\tb\tc\n")
    with pytest.raises(bertscope.InvalidArgument, match="the text has 0 masks"):
        read_questions(find_study(str(tmp_path / "mine.toml")), tmp_path)
    with pytest.raises(bertscope.InvalidArgument, match=r"there is nothing to ask: forms needs forms\.tsv"):
        read_questions(find_study(str(tmp_path / "mine.toml")), written(tmp_path / "other" / "a", "").parent)
    with pytest.raises(bertscope.InvalidArgument, match="'x' is no part of mine; these are: forms"):
        read_questions(find_study(str(tmp_path / "mine.toml")), tmp_path, only=["x"])


def test_gulordava_is_read_as_goldberg_does(tmp_path: Path) -> None:
    path = written(tmp_path / "data" / "generated.tab", GULORDAVA)
    found = read("agreement", "gulordava", tmp_path)
    text = 'the "cat" [MASK] far .'
    assert found.read.items == [Choice(((text, "runs"), (text, "run")), ("original", "0 attractors"))]
    assert found.read.skipped.lines() == ["1 skipped: the right form is one of is, are (first: is, are)"]
    written(path, GULORDAVA.replace("correct", "wrong"))
    with pytest.raises(bertscope.InvalidArgument, match="is not the wrong form") as caught:
        read("agreement", "gulordava", tmp_path)
    assert caught.value.field_violations[0].field == f"{path}, line 3"


def test_broken_files_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "generated.tab").write_bytes(b"\xff\xfe")
    with pytest.raises(bertscope.InvalidArgument, match="is not UTF-8"):
        read("agreement", "gulordava", tmp_path)
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(bertscope.InvalidArgument, match="is not UTF-8"):
        find_study(str(tmp_path / "mine.toml"))
    written(tmp_path / "ROLE-88.tsv", "item\tcontext\texpected\ttarget\n1-a\ta man had\tseen\t \n")
    with pytest.raises(bertscope.InvalidArgument, match="target is empty"):
        read("diagnostics", "role", tmp_path)
    written(tmp_path / "mine.toml", DEFINITION)
    written(tmp_path / "forms.tsv", "text\tright\twrong\tkind\na [MASK]\tb\tc||d\te\n")
    with pytest.raises(bertscope.InvalidArgument, match="a wrong word is empty"):
        read(str(tmp_path / "mine.toml"), "forms", tmp_path)


def test_marvin_and_linzen_and_linzen_are_read_as_bert_syntax_does(tmp_path: Path) -> None:
    rows = "simple_inanim\tsing\tthe movie is good\tthe movie are good\nsimple\tsing\tthe cat runs\tthe cats run\n"
    written(tmp_path / "marvin_linzen_dataset.tsv", rows)
    written(tmp_path / "lgd_dataset.tsv", "2\tVBZ\tthe keys to it ***mask*** here\tare\tis\n")
    found = read("agreement", "marvin-linzen", tmp_path).read
    text = "the movie [MASK] good ."
    assert found.items == [Choice(((text, "is"), (text, "are")), ("simple_anim",))]
    assert found.skipped.counts.total() == 1
    text = "the keys to it [MASK] here"
    assert read("agreement", "linzen", tmp_path).read.items == [Choice(((text, "are"), (text, "is")), ("2 attractors",))]


def test_diagnostics_are_read_as_published(tmp_path: Path) -> None:
    head = "item\tcontext_s1\tcontext_s2\texpected\twithin_category\tbetween_category\tconstraint\n"
    written(tmp_path / "CPRAG-102.tsv", head + "0\tHe ran.\tHe likes\tchess\tgo\tfootball\tH\n")
    head = "item\tcontext\texpected\texp_cloze\ttarget\ttgt_cloze\ttgt_cloze(strict)\n"
    rows = "1-b\ta ghost he had \tseen|met with\t0.6\thaunted\t0\t0\n1-a\ta man it had \thaunted\t0.6\thaunted\t0.6\t0.6\n"
    written(tmp_path / "ROLE-88.tsv", head + rows)
    head = "item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\n"
    written(tmp_path / "NEG-136-SIMP.tsv", head + "0\tAn ant is (a|an)\tAn ant is not (a|an)\tinsect\ttool\n")
    written(tmp_path / "NEG-136-NAT.tsv", head[:-1] + "\tlicensing\n0\tIt is very\tIt isn't very\tsafe\tbad\tY\n")
    text = "He ran. He likes [MASK]"
    group = ("high constraint",)
    assert read("diagnostics", "cprag", tmp_path).read.items == [Blank(text, ("chess",), group)]
    words = ("chess", "go", "football")
    assert read("diagnostics", "cprag-sensitivity", tmp_path).read.items == [Choice(tuple((text, w) for w in words), group)]
    assert read("diagnostics", "role", tmp_path).read.items[0] == Blank("a ghost he had [MASK]", ("seen", "met"))
    options = (("a man it had [MASK]", "haunted"), ("a ghost he had [MASK]", "haunted"))
    assert read("diagnostics", "role-sensitivity", tmp_path).read.items == [Choice(options)]
    both = read("diagnostics", "neg-simp-sensitivity", tmp_path).read.items
    assert both[1] == Choice((("An ant is not a [MASK]", "tool"), ("An ant is not an [MASK]", "insect")), ("negative",))
    natural = read("diagnostics", "neg-nat-sensitivity", tmp_path).read.items
    assert [item.groups for item in natural] == [("affirmative", "licensed affirmative"), ("negative", "licensed negative")]


def test_blimp_is_read_as_published(tmp_path: Path) -> None:
    line = '{"sentence_good": "A cat sleeps.", "sentence_bad": "A cat sleep.", "linguistics_term": "agreement", "UID": "one"}\n'
    written(tmp_path / "data" / "one.jsonl", line)
    assert read("blimp", "original", tmp_path).read.items == [Pair("A cat sleeps.", "A cat sleep.", ("agreement", "one"))]


LAMA = '{"sub_label": "Rome", "obj_label": "Italy", "uuid": "1"}\n{"sub_label": "Bonn", "obj_label": "Germany"}\n'
TEMPLATES = '{"relation": "P1", "template": "[X] is in [Y] .", "template_negated": "[X] is not in [Y] ."}\n'


def test_facts_are_read_as_lama_and_pararel_publish_them(tmp_path: Path) -> None:
    for name in ("TREx/P1.jsonl", "TREx/P2.jsonl", "Google_RE/place_of_birth_test.jsonl", "trex_lms_vocab/P1.jsonl"):
        written(tmp_path / name, LAMA)
    written(tmp_path / "relations.jsonl", TEMPLATES)
    written(tmp_path / "graphs_json" / "P1.jsonl", '{"pattern": "[X] is in [Y].", "lemma": "be"}\n{"pattern": "[X], [Y]."}\n')
    sentence = '{"masked_sentences": ["Birds can [MASK] ."], "obj_label": "fly", "pred": "CapableOf"}\n'
    written(tmp_path / "ConceptNet" / "test.jsonl", sentence + sentence.replace("[MASK]", "fly"))
    found = read("facts", "trex", tmp_path).read
    relation = FactRelation("P1", ["[X] is in [Y] ."])
    assert found.items == [Known(Fact(*pair, "P1"), relation, ("P1",)) for pair in (("Rome", "Italy"), ("Bonn", "Germany"))]
    assert found.skipped.lines() == ["2 skipped: the relation has no template (first: P2, Rome)"]
    negated = read("negation", "trex", tmp_path).read.items[0]
    assert isinstance(negated, Known)
    assert [template.negated for template in templates_of(negated.relation)] == [False, True]
    paraphrased = read("facts", "pararel", tmp_path).read.items[0]
    assert isinstance(paraphrased, Known)
    assert paraphrased.relation == FactRelation("P1", ["[X] is in [Y].", "[X], [Y]."], ["Germany", "Italy"])
    assert len(read("facts", "google-re", tmp_path).read.items) == 2
    found = read("facts", "conceptnet", tmp_path).read
    assert found.items == [Blank("Birds can [MASK] .", ("fly",), ("CapableOf",))]
    assert found.skipped.counts.total() == 1
    written(tmp_path / "relations.jsonl", '{"relation": "P1", "template": "[X] is in ."}\n')
    with pytest.raises(bertscope.InvalidArgument, match=r"needs a template, or a pattern, with \[X\] and \[Y\]"):
        read("facts", "trex", tmp_path)


def test_facts_of_languages_are_kept_apart(tmp_path: Path) -> None:
    for language in ("de", "en"):
        written(tmp_path / "mlama1.1" / language / "P1.jsonl", LAMA)
        written(tmp_path / "mlama1.1" / language / "templates.jsonl", TEMPLATES)
    items = read("facts", "mlama", tmp_path).read.items
    assert list(dict.fromkeys(item.groups for item in items)) == [("de", "de P1"), ("en", "en P1")]
    assert {item.relation.name for item in items if isinstance(item, Known)} == {"de P1", "en P1"}


def test_a_folder_may_be_the_one_that_a_pattern_begins_with(tmp_path: Path) -> None:
    for name in ("P1", "place_of_birth"):
        written(tmp_path / "mlama1.1" / "de" / f"{name}.jsonl", LAMA)
    written(tmp_path / "mlama1.1" / "de" / "templates.jsonl", TEMPLATES + TEMPLATES.replace("P1", "place_of_birth"))
    items = read("facts", "mlama", tmp_path / "mlama1.1").read.items
    assert list(dict.fromkeys(item.groups for item in items)) == [("de", "de P1"), ("de", "de place_of_birth")]
    # Templates of mLAMA are not those of LAMA.
    written(tmp_path / "TREx" / "P1.jsonl", LAMA)
    assert read_questions(find_study("facts"), tmp_path, only=["trex", "mlama"])[0].read.items == []


def test_facts_that_lama_does_not_ask_are_left_out(tmp_path: Path) -> None:
    line = '{"pred": "/people/person/place_of_birth", "sub_label": "%s", "obj_label": "Bonn", "judgments": [%s]}\n'
    judgments = ['{"rater": "1", "judgment": "yes"}', '{"rater": "2", "judgment": "no"}']
    rows = [("Ann", judgments), ("Ann", judgments[:1]), ("Bob", [*judgments, judgments[1]])]
    text = "".join(line % (subject, ", ".join(each)) for subject, each in rows)
    written(tmp_path / "Google_RE" / "place_of_birth_test.jsonl", text)
    found = read("facts", "google-re", tmp_path).read
    relation = FactRelation("place_of_birth", "[X] was born in [Y] .")
    assert found.items == [Known(Fact("Ann", "Bonn", "place_of_birth"), relation, ("place_of_birth",))]
    assert sorted(found.skipped.counts) == ["it is there twice", "more raters deny it than affirm it"]


def test_misprimed_probes(tmp_path: Path) -> None:
    line = '{"masked_sentences": ["%s"], "obj_label": "fly", "masked_misprimed": ["%s"]}\n'
    text = line % ("Birds can [MASK].", "Talk? Birds can [MASK].") + line % ("[MASK].", "Talk? [MASK].")
    written(tmp_path / "TREx" / "random" / "P1_random.jsonl", text)
    found = read("negation", "misprimed-random", tmp_path).read
    template = "[X] can [Y]."
    assert found.items == [Known(Fact("Birds", "fly", template, "Talk"), FactRelation(template, template), ("TREx", "P1"))]
    assert found.skipped.counts.total() == 1
    (capitals,) = read_questions(find_study("negation"), only=["misprimed-capitals"], limit=9)
    for item in capitals.read.items:
        assert isinstance(item, Known)
        (prime,) = item.fact.primes
        assert prime not in item.fact.objects


def test_blanks_are_ranked_among_a_vocabulary_as_facts(tmp_path: Path) -> None:
    words = written(tmp_path / "words.txt", "Italy\nFrance\n")
    definition = find_study("capitals")
    found = read_questions(definition, limit=1, vocabulary=words)[0]
    assert found.by_facts
    assert found.read.vocabulary == ("Italy", "France")
    (item,) = found.read.items
    assert isinstance(item, Known)
    (template,) = templates_of(item.relation)
    assert template.text.endswith("is the capital of [Y].")
    with pytest.raises(bertscope.InvalidArgument, match="no part ranks words"):
        read_questions(find_study("blimp"), tmp_path, vocabulary=words)


def test_outcomes_are_strict_and_say_why_an_item_is_skipped() -> None:
    scores = WordScores(
        {("a [MASK]", "x"): Score(-1.0, 3), ("a [MASK]", "y"): Score(-1.0, 3), ("b [MASK]", "x"): Score(-2.0, 9)}
    )
    several = {
        "text": "a [MASK]",
        "words": ["z", "é"],
        "rejected": None,
        "log_probabilities": [-9.0, None],
        "ranks": [None] * 2,
    }
    note(scores, {**several, "ranks": [None, None], "unwritable": ["é"]})
    note(scores, {"text": "c [MASK]", "words": ["x"], "rejected": "the text is too long"})
    assert outcome(Choice((("a [MASK]", "x"), ("a [MASK]", "y"))), scores) == Outcome(tied=True)
    assert outcome(Choice((("a [MASK]", "x"), ("b [MASK]", "x"))), scores) == Outcome(right=True)
    assert outcome(Choice((("b [MASK]", "x"), ("a [MASK]", "x"))), scores) == Outcome()
    assert outcome(Choice((("a [MASK]", "x"), ("a [MASK]", "z"))), scores).skipped == (
        "a word is not a single entry of the vocabulary"
    )
    assert outcome(Choice((("c [MASK]", "x"), ("a [MASK]", "x"))), scores).skipped == "the text is too long"
    assert outcome(Blank("a [MASK]", ("z", "y")), scores) == Outcome(rank=3)
    assert outcome(Blank("a [MASK]", ("é", "z")), scores).skipped == "the vocabulary can't write it"


def result(tmp_path: Path, outcomes: list[Outcome], other: list[Outcome] | None = None) -> PartResult:
    written(tmp_path / "forms.tsv", FORMS)
    (questions,) = read_questions(find_study(str(written(tmp_path / "mine.toml", DEFINITION))), tmp_path)
    part, items = questions.part, questions.read.items
    answers = []
    for model, own in ((MODEL, outcomes), (dataclasses.replace(MODEL, name="models/other", source="else"), other)):
        if own is not None:
            found = measures(part, items, own)
            answers.append(Answers(model, tuple(own), tuple(found), tuple(judge(part, model, found)), Skipped()))
    return PartResult(questions, tuple(answers), compare(part, items, outcomes, other) if other else ())


def test_figures_verdicts_and_the_comparison(tmp_path: Path) -> None:
    right, wrong, tied = Outcome(right=True), Outcome(), Outcome(tied=True)
    part = result(tmp_path, [right, right, tied, wrong], [wrong, right, right, Outcome("too long")])
    whole = part.answers[0].measures[0]
    assert (whole.group, whole.value, whole.items, whole.tied) == ("", 0.5, 4, 1)
    assert whole.low < 0.5 < whole.high
    assert [(one.group, one.items) for one in part.answers[1].measures] == [("", 3), ("a", 3)]
    assert verdict_line(part.answers[0]) == "m: reproduced (accuracy 0.500, published 0.500)"
    assert verdict_line(part.answers[1]) == "other: no published figure for these weights"
    whole_part = part.differences[0]
    assert (whole_part.items, whole_part.only_model, whole_part.only_baseline, whole_part.interval) == (3, 1, 1, None)
    assert "too few" in comparison_lines(part)[0]
    assert "p = 1" in comparison_lines(part)[1]
    assert difference_table(part).rows == [["all", "3", "+0.0", "–", "1"], ["a", "3", "+0.0", "–", "1"]]
    table = figures_table(part)
    assert [len(row) for row in table.rows] == [len(table.columns)] * 3
    assert left_out(part) == []
    assert plot_part(part, dark=True).axes
    with pytest.raises(bertscope.InvalidArgument, match="no item that was asked"):
        plot_part(result(tmp_path, [Outcome("long")] * 4))


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
        ({"shape": {"layers": (12,), "parameters": (900, 1000)}}, "reproduced"),
        ({"shape": {"layers": (24,)}}, "another model"),
        ({"shape": {"parameters": (900,)}}, "another model"),
    ],
)
def test_a_verdict_needs_the_same_weights_and_items(tmp_path: Path, change: dict[str, object], verdict: str) -> None:
    outcomes = [Outcome(right=True)] * 2 + [Outcome()] * 2
    part = result(tmp_path, outcomes)
    published = dataclasses.replace(Published("some/model", "accuracy", 0.5, 0.01, "Table 1", items=4), **change)  # type: ignore[arg-type]
    (found,) = judge(dataclasses.replace(part.questions.part, published=(published,)), MODEL, part.answers[0].measures)
    assert found.verdict == verdict
    published_part = dataclasses.replace(part.questions.part, published=(published,))
    (found,) = judge(published_part, MODEL, part.answers[0].measures, as_declared=False)
    assert found.verdict not in ("reproduced", "differs")


def test_ranks_make_shares_and_means_over_groups(tmp_path: Path) -> None:
    part = dataclasses.replace(find_study("capitals").parts[0], mean="groups")
    items = [Blank("[MASK]", ("x",), (group,)) for group in "aab"]
    found = {(one.group, one.metric): one for one in measures(part, items, [Outcome(rank=rank) for rank in (1, 20, 1)])}
    assert found["a", "p@1"].value == 0.5
    assert found["", "p@1"].value == 0.75
    assert math.isnan(found["", "p@1"].low)
    assert found["b", "mrr"].value == 1.0


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
    published, hub = Published("some/model", "accuracy", 0.5, 0.01, "Table 1"), MODEL
    assert same_weights(published, hub)
    assert not same_weights(published, dataclasses.replace(hub, **change))  # type: ignore[arg-type]
    known = dataclasses.replace(published, weights="sha256:1")
    assert same_weights(known, dataclasses.replace(hub, **change))  # type: ignore[arg-type]


@pytest.mark.parametrize("mean", ["items", "groups"])
def test_differences_have_paired_intervals_of_the_reported_mean(mean: str) -> None:
    part = dataclasses.replace(find_study("capitals").parts[0], mean=mean)
    items = [Blank("[MASK]", ("x",), ("a" if index < 40 else "b",)) for index in range(60)]
    ours = [Outcome(rank=1 if index % 4 else 3) for index in range(60)]
    theirs = [Outcome(rank=1 if index % 2 and index < 40 else 2 + index % 3) for index in range(60)]
    found = {(each.group, each.metric): each for each in compare(part, items, ours, theirs)}
    figures = [{(one.group, one.metric): one.value for one in measures(part, items, each)} for each in (ours, theirs)]
    for key, each in found.items():
        assert each.value == pytest.approx(figures[0][key] - figures[1][key])
        assert each.interval is not None
        assert each.interval.low < each.value < each.interval.high
    assert math.isnan(found["", "mrr"].p_value)
    assert found["", "p@1"].p_value < 0.05
    assert found["", "p@10"].interval.high == pytest.approx(-found["", "p@10"].interval.low)  # all items are alike
    again = compare(part, items, ours, theirs)[0]
    assert again.interval == found["", "p@1"].interval
