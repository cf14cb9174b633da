"""`bertscope fill --texts FILE --output FILE` against servers on sockets: rows, what is left out, and how a run goes on."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bertscope
import grpc
import pytest
from google.rpc import code_pb2

from tests.support.fake_server import FakeServer
from tests.support.harness import Host

Command = Callable[..., tuple[int, str, str]]
COUNT = 1000


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "in.tsv"
    path.write_text("id\ttext\n" + "".join(f"{n}\tThe {n} [MASK].\n" for n in range(COUNT)))
    return path


FIRST = "The 0 [MASK]."


def after(number: int, event: Callable[[grpc.ServicerContext], None]) -> Callable[[Any, grpc.ServicerContext], None]:
    """Does something in the call after a number of calls, and in no other.

    The first texts' call is answered, though the server may come to it after those that were sent later: so there is a row.
    """
    count = 0

    def judge(request: Any, context: grpc.ServicerContext) -> None:
        nonlocal count
        count += 1
        if count > number and request.texts[0] != FIRST:
            count = -COUNT
            event(context)

    return judge


@pytest.mark.slow
def test_patience_says_how_long_a_server_is_waited_for(
    command: Command, server: FakeServer, abort: Callable[..., object], texts: Path, tmp_path: Path
) -> None:
    server.judge = after(3, abort(code_pb2.RESOURCE_EXHAUSTED, "busy"))  # once: with more patience the run would go on
    code, out, err = command("fill", "--texts", texts, "--output", tmp_path / "out.csv", "--patience", 0)
    assert (code, out) == (1, "") and err.startswith("bertscope: busy; ") and err.endswith("with --resume goes on\n")


WORDS = [["cat", "dog"], ["Paris", "France", "Berlin"]]


@pytest.mark.slow
def test_each_text_of_a_file_has_its_own_candidates(host: Host, command: Command, tmp_path: Path) -> None:
    prompts, texts = tmp_path / "prompts.jsonl", ("The [MASK] sat.", "[MASK] is the capital of France.")
    rows = [{"text": text, "words": words} for text, words in zip(texts, WORDS, strict=True)]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ("fill", "--texts", prompts, "--candidates-per-text", "--columns", "candidates=words", "--target", host.target)
    code, out, err = command(*asked, "--json")
    assert (code, err) == (0, "")
    shown = [[each["token"] for each in result["masks"][0]["predictions"]] for result in json.loads(out)["results"]]
    output = tmp_path / "out.jsonl"
    assert command(*asked, "--output", output) == (0, f"wrote {output}: 2 rows\n", "")
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["tokens"][0] for row in rows] == shown
    assert [sorted(words) for words in shown] == [sorted(words) for words in WORDS]
    with bertscope.Client(host.target) as client:
        alone = [client.fill_mask(row["text"], candidates=words)[0] for row, words in zip(rows, WORDS, strict=True)]
    for row, answer in zip(rows, alone, strict=True):
        assert row["probabilities"][0] == pytest.approx([each.probability for each in answer.masks[0].predictions], rel=1e-4)
    code, _, err = command(*asked[:3], "--target", host.target, "--output", output, "--resume")
    assert code == 1 and "the option --candidates-per-text was true and is null now" in err


def test_a_rejected_candidate_of_a_file_is_named(host: Host, command: Command, tmp_path: Path) -> None:
    path, output = tmp_path / "in.tsv", tmp_path / "out.csv"
    path.write_text("text\tcandidates\nOne [MASK].\ta|b\nTwo [MASK].\ta|a\nThree [MASK].\t|\n")
    asked = ("fill", "--texts", path, "--candidates-per-text", "--target", host.target)
    assert "line 4: candidates: must be a text, or several" in command(*asked)[2]
    assert "the name must end with .tsv" in command("fill", "--texts", tmp_path / "in.txt", "--candidates-per-text")[2]
    path.write_text(path.read_text().rsplit("Three", 1)[0])
    assert "candidate 2 of line 3 " in command(*asked)[2]
    assert "candidate 2 of line 3 " in command(*asked, "--output", output)[2]
    code, out, err = command(*asked, "--output", output, "--skip-broken", "--resume")
    assert code == 0 and out.startswith(f"wrote {output}: 1 row") and out.endswith("; left out 1 item\n")
    assert f"left out: {path}, line 3: candidate 2 " in err


def test_classify_writes_rows(command: Command, texts: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    assert command("classify", "--texts", texts, "--output", output) == (0, f"wrote {output}: {COUNT} rows\n", "")
    row = json.loads(output.read_text().splitlines()[0])
    assert (row["predicted_label"], row["labels"]) == ("positive", ["positive", "negative"])
    assert row["probabilities"] == [0.75, 0.25]
    assert command("classify", "--texts", texts, "--output", output, "--resume")[0] == 0
    code, _, err = command("fill", "--texts", texts, "--output", output, "--resume")
    assert code == 1 and 'the option question was "classify" and is "fill_mask" now' in err
    code, out, err = command("classify", "--texts", texts, "--limit", 2, "--json")
    assert (code, err, len(json.loads(out)["results"])) == (0, "", 2)
