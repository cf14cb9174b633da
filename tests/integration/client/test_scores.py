"""`score_texts` of both clients, and `bertscope score`, on a real server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import pandas
import pytest

from tests.support.harness import Host


def test_texts_and_words_are_shown(host: Host, run_at: Any) -> None:
    code, out, err = run_at(host.target, "score", "The cat sat.", "The unplayable song.")
    assert (code, err) == (0, "")
    assert "The unplayable song." in out
    assert "pseudo-perplexity" in out
    assert "scoring: within-word, models/bert" in out
    code, out, _ = run_at(host.target, "score", "The unplayable song.", "--words", "--scoring", "whole-word")
    assert code == 0
    assert "surprisal, bits" in out
    assert "unplayable" in out
    code, out, _ = run_at(host.target, "score", "The unplayable song.", "--pieces")
    assert "log-probability" in out
    code, out, _ = run_at(host.target, "score", "--conditional", "The cat | sat | .", "--words", "--json")
    document = json.loads(out)
    assert [word["text"] for word in document["results"][0]["words"]] == ["sat"]
    assert document["results"][0]["log_likelihood"] == document["log_likelihood"]
    code, _, err = run_at(host.target, "score", "The cat", "[MASK]")
    assert (code, "text 2: holds no token" in err) == (1, True)


PAIRS = [
    ("The keys to the cabinet are old.", "The keys to the cabinet is old."),
    ("The dog walked to the market.", "The dog walked market to the."),
    ("She plays the violin.", "She play the violin."),
    ("The cat sat.", "The cat sat."),
    ("Nobody waited.", "Nobody unplayable."),
    ("The children who saw the man were young.", "The children who saw the man was young."),
]


@pytest.mark.slow
def test_a_set_of_too_much_work_is_named_or_left_out(launch: Any) -> None:
    sets, rejected = [PAIRS[0], ("cat " * 50, "dog " * 50), PAIRS[1]], list[tuple[int, str | None]]()
    with bertscope.Client(launch(max_request_tokens=4000).target) as client:
        with pytest.raises(bertscope.InvalidArgument, match=r"^sets\[1\]: more than 4000 tokens .* score its texts") as caught:
            client.compare_texts(sets)
        assert caught.value.reason == "TOO_MANY_TOKENS"
        found = client.compare_texts(sets, on_rejected=lambda index, error: rejected.append((index, error.reason)))
        assert len(client.score_texts(list(sets[1]))) == 2  # The remedy.
    assert rejected == [(1, "TOO_MANY_TOKENS")]
    assert [one.texts for one in found.sets] == [PAIRS[0], PAIRS[1]]


def test_the_command_compares_pairs_by_group_and_model(host: Host, run_at: Any, tmp_path: Path) -> None:
    path, table, figure = tmp_path / "pairs.jsonl", tmp_path / "sets.jsonl", tmp_path / "accuracy.svg"
    rows = [
        {"sentence_good": good, "sentence_bad": bad, "field": "syntax", "UID": f"u{index % 2}"}
        for index, (good, bad) in enumerate([*PAIRS, ("cat " * 400, "cat")])
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    arguments = ["score", "pairs", str(path), "--baseline", "roberta", "--output", str(table), "--plot", str(figure)]
    code, out, err = run_at(host.target, *arguments)
    assert (code, err) == (0, "")
    assert "left out: 1 text" in out
    assert "pairs.jsonl, line 7: texts[0] has" in out
    assert "models/bert: 6 pairs, within-word" in out
    assert "models/bert beside models/roberta" in out
    assert "McNemar's p" in out
    assert "u1" in out
    written = [json.loads(line) for line in table.read_text(encoding="utf-8").splitlines()]
    assert len(written) == 6
    assert {"difference", "baseline_difference", "field", "UID"} <= set(written[0])
    assert figure.stat().st_size > 1000
    code, out, _ = run_at(host.target, "score", "pairs", str(path), "--group", "UID", "--limit", "6", "--json")
    document = json.loads(out)
    assert [group["group"] for group in document["groups"]] == ["u0", "u1"]
    assert document["accuracy"]["sets"] == 6
    assert document["sets"][3]["outcome"] == "tie"


def test_pairs_compared_before_an_error_are_shown_and_written(
    host: Host, run_at: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = bertscope.Client.compare_texts_stream

    def cut(self: bertscope.Client, sets: Any, **arguments: Any) -> Iterator[Any]:
        for number, one in enumerate(whole(self, sets, **arguments)):
            if number == 4:
                raise bertscope.ResourceExhausted("the queue is full")
            yield one

    monkeypatch.setattr(bertscope.Client, "compare_texts_stream", cut)
    path, table = tmp_path / "pairs.tsv", tmp_path / "sets.csv"
    path.write_text("good\tbad\n" + "".join(f"{good}\t{bad}\n" for good, bad in PAIRS), encoding="utf-8")
    code, out, err = run_at(host.target, "score", "pairs", str(path), "--output", str(table), "--baseline", "roberta")
    assert code != 0
    assert "models/bert: 4 pairs" in out
    assert ("the queue is full" in err, "numbers are of 4 of 6 pairs" in err) == (True, True)
    assert not table.exists()
    assert len((tmp_path / "sets.partial.csv").read_text(encoding="utf-8").splitlines()) == 5


def test_rows_of_texts_and_pairs(host: Host, run_at: Any, tmp_path: Path) -> None:
    path, output = tmp_path / "texts.tsv", tmp_path / "rows.jsonl"
    path.write_text("sentence\tid\nThe cat sat.\t1\n" + "cat " * 400 + "\t2\nA dog, too.\t3\n", encoding="utf-8")
    arguments = ["score", "--texts", str(path), "--columns", "text=sentence", "--words", "--rows", str(output)]
    code, _, err = run_at(host.target, *arguments)
    assert code == 1 and "line 3 has 402 tokens" in err
    output.unlink(missing_ok=True)
    code, out, err = run_at(host.target, *arguments, "--skip-broken")
    assert (code, out) == (0, f"wrote {output}: 2 rows; left out 1 item\n") and "line 3: has 402 tokens" in err
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [(row["line"], row["sentence"], row["id"]) for row in rows] == [(2, "The cat sat.", "1"), (4, "A dog, too.", "3")]
    assert np.isclose([sum(row["surprisals"]) for row in rows], [-row["log_likelihood"] for row in rows]).all()
    code, _, err = run_at(host.target, *arguments, "--skip-broken", "--resume", "--scoring", "original")
    assert code == 1 and "the option scoring was" in err
    with_bars, pairs = tmp_path / "bars.txt", tmp_path / "pairs.tsv"
    with_bars.write_text("The | cat | sat.\n", encoding="utf-8")
    code, _, err = run_at(host.target, "score", "--texts", str(with_bars), "--conditional", "--rows", str(tmp_path / "b.csv"))
    assert (code, err) == (0, "")
    lines = [f"u{number % 2}\t{good}\t{bad}\n" for number, (good, bad) in enumerate(PAIRS)]
    pairs.write_text("UID\tgood\tbad\n" + "".join(lines), encoding="utf-8")
    asked = ["score", "pairs", str(pairs), "--rows", str(tmp_path / "p.csv")]
    code, _, err = run_at(host.target, *asked, "--limit", "2")
    assert (code, err) == (0, "")
    _, without_rows, _ = run_at(host.target, *asked[:3])
    for more in ([], ["--group", "UID"]):
        code, out, err = run_at(host.target, *asked, "--resume", *more)
        wrote, _, accuracies = out.partition("\n")
        assert (code, err) == (0, "") and f"{len(PAIRS)} rows" in wrote
        assert accuracies == without_rows
    assert pandas.read_csv(tmp_path / "p.csv")["outcome"].isin(["right", "wrong", "tie"]).all()
