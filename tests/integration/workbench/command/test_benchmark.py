"""`bertscope compress`, `bertscope benchmark` and `bertscope models load --runtime` against a server on a socket."""

import json

import pytest
from bertscope.v1 import common_pb2
from google.rpc import code_pb2


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("one\n\ntwo\nthree\n")
    return path


def test_compress(command, server, texts):
    code, out, err = command(
        *("compress", "--steps", "layers=0+2,heads=0.5", "--steps", "int8", "--texts", texts),
        *("--name", "small", "--model", "fake", "--folder", "/m"),
    )
    assert (code, err) == (0, "")
    assert out.startswith("layers: did layers\nheads: did heads\nint8: did int8\n")
    assert out.endswith("models/small is compressed: layers, heads, int8\nsaved in /m on the server\n")
    (request,) = server.requests
    assert (request.model, request.model_id, request.folder) == ("models/fake", "small", "/m")
    assert list(request.steps[1].heads.texts) == ["one", "two", "three"]


def test_benchmark(command, server, texts, tmp_path, stored):
    prompts = tmp_path / "prompts.tsv"
    prompts.write_text("text\tanswer\nx [MASK]\ty\n")
    code, out, err = command(
        *("benchmark", "--baseline", "a", "--model", "b", "--model", "models/c", "--length", 8, "--length", 16),
        *("--batch-size", 4, "--min-runs", 5, "--min-seconds", 0.5, "--max-seconds", 9, "--others", "refuse"),
        *("--resamples", 200, "--confidence", 0.9, "--seed", 3),
        *("--agreement", texts, "--embed", "--top-k", 2, "--prompts", prompts, "--skip-multi-piece"),
    )
    assert (code, err) == (0, "")
    stored(printed=out, requests=server.requests)


def test_how_the_models_run_is_asked_for(command, server, texts):
    assert command("benchmark", "--model", "a", "--model", "b", "--runtime", "onnx")[0] == 0
    assert command("benchmark", "--model", "a", "--model", "b", "--as-loaded")[0] == 0
    assert [(one.runtime, one.as_loaded) for one in server.requests] == [
        (common_pb2.RUNTIME_ONNX, False),
        (common_pb2.RUNTIME_UNSPECIFIED, True),
    ]
    code, _, err = command("benchmark", "--model", "a", "--runtime", "onnx", "--as-loaded")
    assert (code, len(server.requests)) == (2, 2)
    assert "--as-loaded does not go with --runtime" in err


def test_benchmark_json(command, tmp_path):
    code, out, err = command("benchmark", "--model", "a", "--json", "--output", tmp_path / "a.csv")
    document = json.loads(out)
    assert (code, err, document["baseline"]) == (0, "", "models/a")
    assert document["machine"]["cpu_flags"] == ["avx512f", "avx512_vnni"]
    assert (tmp_path / "a.csv").exists()


def test_studies(command, server, tmp_path, stored):
    table = tmp_path / "table.csv"
    code, out, err = command(
        *("benchmark", "studies", "--system", "DistilBERT", "--system", "WaLDORf", "--heavy", "--runtime", "onnx"),
        *("--length", 64, "--output", table),
    )
    assert (code, err) == (0, "")
    shown, _, wrote = out.rpartition("wrote ")
    assert wrote == f"{table}\n"
    stored(printed=shown, table=table.read_text(), requests=server.requests)


@pytest.mark.parametrize(
    ("said", "options", "shown"),
    [
        ("agreement_texts[1] has no word", ["--agreement"], ", line 3 has no word"),
        ("measurement.texts[2] is too long", ["--texts"], ", line 4 is too long"),
        ("objective.masked_lm_loss.texts[1] is empty", ["--loss"], ", line 3 is empty"),
    ],
)
def test_a_text_that_the_server_refuses_is_named_by_its_line(said, options, shown, command, server, abort, texts):
    server.fail = abort(code_pb2.INVALID_ARGUMENT, said)
    code, out, err = command("benchmark", "--model", "a", *options, texts)
    assert (code, out) == (1, "")
    assert err == f"bertscope: {texts}{shown}\n"


def test_what_cannot_be_written_is_told_before_anything_is_measured(command, server, tmp_path):
    folder = tmp_path / "a.csv"
    folder.mkdir()
    code, _, err = command("benchmark", "--model", "a", "--output", folder)
    assert (code, server.requests) == (2, [])
    assert err.startswith(f"bertscope: --output {folder}: it is a folder")


def test_a_page_and_json_say_how_it_was_asked_for(command, texts, tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("good\tbad\nThe cat.\tCat the.\nA dog.\tDog a.\n")
    page, document = tmp_path / "a.html", tmp_path / "a.json"
    asked = ("benchmark", "--model", "a", "--model", "b", "--pairs", pairs, "--agreement", texts)
    code, _, err = command(*asked, "--output", page, "--output", document)
    assert (code, err) == (0, "")
    about = json.loads(document.read_text())["asked"]
    assert about["files"] == ["2 items of pairs.tsv", "3 texts of texts.txt"]
    assert about["items"] == 2
    assert about["command"].startswith("bertscope")
    assert "2 items of pairs.tsv" in page.read_text()
    assert about["day"] in page.read_text()
