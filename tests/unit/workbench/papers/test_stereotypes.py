"""CrowS-Pairs and StereoSet as published: their readers, and the figures of StereoSet."""

import json
from pathlib import Path
from typing import Any

import pytest
from bertscope_workbench.papers.claim_files import shipped_reproduction
from bertscope_workbench.papers.published.figures import differences, figures_of
from bertscope_workbench.papers.published.item_kinds import Association
from bertscope_workbench.papers.published.outcomes import Outcome
from bertscope_workbench.papers.published.readers import Questions, read_questions
from bertscope_workbench.papers.published.stereotypes import shared_words

from tests.support.stored_outputs import outcome

HEAD = ",id,sent_more,sent_less,stereo_antistereo,bias_type,annotations,anon_writer,anon_annotators\n"
ROWS = (
    '0,1,"Old people, they say, drive slowly.","Young people, they say, drive slowly.",stereo,age,"[[\'age\']]",a0,[]\n'
    '1,2,The plumber fixed his sink.,The plumber fixed her sink.,antistereo,gender,"[]",a1,[]\n'
    "2,3,Yes!,No.,stereo,age,[],a2,[]\n"
)


CLAIMS = {"crows-pairs": "pairs", "stereoset": "intrasentence"}


def read(study: str, folder: Path, name: str, text: str) -> Questions:
    (folder / name).write_text(text, encoding="utf-8")
    return read_questions(shipped_reproduction(study, CLAIMS[study]), folder, None)


def example(**changed: Any) -> dict[str, Any]:
    sentences = {
        "stereotype": "The chef's soup was very salty.",
        "anti-stereotype": "the chef's soup was very  half-baked .",
        "unrelated": "The chef's soup was very Tuesday",
    }
    given = {
        "id": "1",
        "target": "chef",
        "bias_type": "profession",
        "context": "The chef's soup was very BLANK.",
        "sentences": [{"id": label, "sentence": text, "labels": [], "gold_label": label} for label, text in sentences.items()],
    }
    return given | changed


def stereoset(*examples: dict[str, Any]) -> str:
    return json.dumps({"version": "1.0", "data": {"intrasentence": examples, "intersentence": []}})


def test_crows_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored) -> None:
    monkeypatch.chdir(tmp_path)
    name = "crows_pairs_anonymized.csv"
    found = read("crows-pairs", Path(), name, HEAD + ROWS)
    one, other = "He is now a she?", "is now he a She"
    first, second = shared_words(one, other)
    broken = "sent_more,sent_less\n", HEAD + "0,1,A b,A c,stereotype,age,[],a,[]\n", HEAD + "0,1,A b,,stereo,age,[],a,[]\n"
    stored(
        items=found.read.items,
        skipped=found.read.skipped.lines(),
        scoring=found.reproduction.scoring,
        words_in_common=[[one[start:end] for start, end in first], [other[start:end] for start, end in second]],
        refused=[outcome(lambda text=text: read("crows-pairs", Path(), name, text)) for text in broken],
    )


def test_stereoset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored) -> None:
    monkeypatch.chdir(tmp_path)
    found = read("stereoset", Path(), "dev.json", stereoset(example(), example(context="Another BLANK.")))
    reproduction = shipped_reproduction("stereoset", "intrasentence")
    items = [Association(("a",) * 3, ((),) * 3, (target, "race")) for target in ("one", "one", "one", "two")]
    outcomes = [Outcome(extras={"ss": ss, "lms": lms}) for ss, lms in ((1, 1), (1, 1), (0, 0.5), (0, 1))]
    broken = "{", "[]", stereoset(example(context="No blank.")), stereoset(example(sentences=[]))
    stored(
        items=found.read.items,
        skipped=found.read.skipped.lines(),
        means_over_target_terms=figures_of(reproduction, items, outcomes),
        compared=sorted({each.metric for each in differences(reproduction, items, outcomes, outcomes)}),
        refused=[outcome(lambda text=text: read("stereoset", Path(), "dev.json", text)) for text in broken],
    )
