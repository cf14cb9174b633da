"""A run asks every test of every model once, keeps the answers, and says why it did not ask."""

import dataclasses
import json
from pathlib import Path
from typing import Any, cast

import pytest
from bertscope import Client, FailedPrecondition, InvalidArgument, Unavailable
from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.documents import COLUMNS, claims_document, claims_rows
from bertscope_workbench.papers.estimates import Measured
from bertscope_workbench.papers.film import run_film
from bertscope_workbench.papers.items import Data
from bertscope_workbench.papers.kept_results import TESTS, KeptResults
from bertscope_workbench.papers.run import ClaimsProgress, ClaimsRun, Compared, run_claims
from bertscope_workbench.papers.verdicts import FAILS, HOLDS, NOT_ASKED, UNKNOWN

from tests.support.claims import CLAIMS, Hosted, a_claim, a_test, nothing, one_model, right, wrong


def asked(client: Hosted, claims: Any = CLAIMS, **options: Any) -> ClaimsRun:
    return run_claims(cast(Client, client), claims, **options)


def test_a_run_judges_every_claim() -> None:
    primer = asked(Hosted("a", "b"), models=["a", "b"])
    for number in range(2):
        found = [primer.result(claim.name, number) for claim in CLAIMS]
        assert [each.verdict for each in found] == [HOLDS, FAILS, NOT_ASKED, NOT_ASKED, NOT_ASKED]
        assert "no treebank is there" in found[2].why
        assert "it has no heads" in found[2].why
        assert "no-such-capability" in found[3].why
        assert "ko" in found[4].why
    with pytest.raises(KeyError):
        primer.result("none")


def test_a_claim_of_training_holds_for_no_model_that_guesses(tmp_path: Path) -> None:
    claims = [
        a_claim([a_test(right)], "learned"),
        a_claim([a_test(right)], "open", learned=False),
        a_claim([a_test(wrong)], "false"),
    ]
    for _ in range(2):  # The second time the answers are the kept ones.
        kept = KeptResults(tmp_path / "kept.jsonl", resume=True)
        (found,) = asked(Hosted("a", gain=0.4), claims, kept=kept).models
        assert [each.verdict for each in found.claims] == [UNKNOWN, HOLDS, FAILS]
        assert "0.90 nats better than by guessing" in found.claims[0].why
    (found,) = asked(Hosted("a", gain=1.0), claims, kept=kept).models
    assert [each.verdict for each in found.claims] == [HOLDS, HOLDS, FAILS]


def test_a_model_that_still_loads_is_not_asked_in_vain() -> None:
    client = Hosted("a")
    client.models["a"] = dataclasses.replace(client.models["a"], state="loading")
    with pytest.raises(FailedPrecondition, match="a is loading; ask again"):
        asked(client)


def test_progress_counts_tests_and_estimates_the_time() -> None:
    heard: list[ClaimsProgress] = []
    asked(Hosted("a"), CLAIMS[:2], on_progress=heard.append)
    assert [(each.done, each.total) for each in heard] == [(0, 3), (1, 3), (2, 3)]
    assert heard[0].seconds_left is None
    assert all(each.seconds_left is not None for each in heard[1:])


def test_a_run_that_was_cut_goes_on(tmp_path: Path) -> None:
    file, calls = tmp_path / "kept" / TESTS, []

    def counted(asking: Asking) -> Measured:
        calls.append(1)
        return right(asking)

    def broken(asking: Asking) -> Measured:
        raise Unavailable("gone", reason="GONE")

    first = a_test(counted)
    with pytest.raises(Unavailable):
        asked(Hosted("a"), [a_claim([first, a_test(broken, "second")])], kept=KeptResults(file.parent))
    with pytest.raises(FailedPrecondition, match="--resume"):
        KeptResults(file.parent)
    whole = a_claim([first, a_test(one_model, "second")])
    resumed = asked(Hosted("a"), [whole], kept=KeptResults(file.parent, resume=True))
    assert len(calls) == 1
    undisturbed = asked(Hosted("a"), [whole])
    assert without_times(claims_document(resumed)) == without_times(claims_document(undisturbed))


def test_answers_of_others_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "kept" / TESTS
    asked(Hosted("a"), CLAIMS[:1], kept=KeptResults(file.parent))
    with pytest.raises(FailedPrecondition, match="languages"):
        asked(Hosted("a"), CLAIMS[:1], kept=KeptResults(file.parent, resume=True), compared=Compared(languages=("ko",)))
    file.write_text("something else\n" + file.read_text())
    with pytest.raises(InvalidArgument, match="line 1"):
        KeptResults(file.parent, resume=True)


@pytest.mark.parametrize("text", ["my notes\n", "my notes", "5\n", "{}\n", '{"model": "a"}\n', '{"model": "a", "asked": 5}\n'])
def test_a_file_of_something_else_stays(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kept" / TESTS
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(InvalidArgument, match="line 1"):
        KeptResults(file.parent, resume=True)
    assert file.read_text() == text


def test_answers_that_were_not_asked_for_stay(tmp_path: Path) -> None:
    file = tmp_path / "kept" / TESTS
    first = KeptResults(file.parent)
    assert not first.answered
    asked(Hosted("a"), CLAIMS[:2], kept=first)
    assert first.answered
    narrow = KeptResults(file.parent, resume=True)
    asked(Hosted("a"), CLAIMS[:1], kept=narrow)
    narrow.finish()
    assert file.exists()
    wide = KeptResults(file.parent, resume=True)
    asked(Hosted("a"), CLAIMS[:2], kept=wide)
    wide.finish()
    assert not file.exists()


@pytest.mark.parametrize("models", [["a", "a"], ["a", None]])
def test_a_model_is_asked_once(models: list[str | None]) -> None:
    with pytest.raises(InvalidArgument, match="twice"):
        asked(Hosted("a"), models=models)


@pytest.mark.parametrize("languages", [("",), ("English",), ("EN",), ("en", "en")])
def test_languages_are_codes(languages: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument, match="languages"):
        Compared(languages=languages)


def test_a_broken_file_of_the_users_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bad.conllu").write_text("broken")

    def broken(asking: Asking) -> Measured:
        raise InvalidArgument(f"{tmp_path}/bad.conllu, line 1: is broken", reason="BROKEN")

    with pytest.raises(InvalidArgument, match="is broken"):
        asked(Hosted("a"), [a_claim([a_test(broken)])], data=Data(tmp_path))


def test_a_folder_without_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"")
    with pytest.raises(InvalidArgument, match="no file that a claim reads"):
        Data(tmp_path)


def test_half_a_line_is_asked_again(tmp_path: Path) -> None:
    file = tmp_path / "kept" / TESTS
    asked(Hosted("a"), CLAIMS[:1], kept=KeptResults(file.parent))
    file.write_text(file.read_text()[:-40])
    primer = asked(Hosted("a"), CLAIMS[:1], kept=KeptResults(file.parent, resume=True))
    assert primer.result("mixed").verdict == HOLDS
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 2


def test_a_changed_threshold_judges_kept_answers_anew(tmp_path: Path) -> None:
    file = tmp_path / "kept" / TESTS
    asked(Hosted("a"), [a_claim([a_test(right)])], kept=KeptResults(file.parent))
    primer = asked(Hosted("a"), [a_claim([a_test(nothing, threshold=0.4)])], kept=KeptResults(file.parent, resume=True))
    assert primer.result("one").verdict == UNKNOWN  # .4 lies in the interval of .9 - .5


def test_documents_and_rows_have_every_test() -> None:
    primer = asked(Hosted("a", "b"), models=["a", "b"])
    document = json.loads(json.dumps(claims_document(primer), allow_nan=False))
    assert [model["name"] for model in document["models"]] == ["a", "b"]
    assert document["claims"][0]["verdicts"] == [HOLDS, HOLDS]
    assert document["claims"][0]["tests"][0]["results"][1]["value"] == 0.9
    rows = claims_rows(primer)
    assert len(rows) == 2 * sum(len(claim.tests) for claim in CLAIMS)
    assert all(len(row) == len(COLUMNS) for row in rows)


def test_checkpoints_are_loaded_one_after_another() -> None:
    client = Hosted("a")
    primer = run_film(cast(Client, client), CLAIMS[:1], ["step100", "/folder/checkpoint-200"])
    assert [each.step for each in primer.models] == [100, 200]
    source = client.get_model().source
    expected = [f"load a-100 {source}@step100", "unload a-100", "load a-200 /folder/checkpoint-200", "unload a-200"]
    assert client.events == expected


@pytest.mark.parametrize("revisions", [["main"], ["step2", "step1"], ["step1", "v1"]])
def test_steps_must_be_numbers_in_order(revisions: list[str]) -> None:
    client = Hosted("a")
    with pytest.raises(InvalidArgument, match="revisions"):
        run_film(cast(Client, client), CLAIMS[:1], revisions)
    assert not client.events


def without_times(document: dict[str, Any]) -> dict[str, Any]:
    for claim in document["claims"]:
        for test in claim["tests"]:
            for result in test["results"]:
                result.pop("seconds")
    return document
