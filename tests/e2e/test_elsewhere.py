"""What compression writes runs in other programs: the examples of docs/elsewhere.md, on real weights."""

import re
import subprocess
import sys
from pathlib import Path

import bertscope
import numpy as np
import onnxruntime
import pytest
import tokenizers

from tests.support.patience import granted

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "elsewhere.md").read_text(encoding="utf-8")
PROGRAMS = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```py\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
(CONFIGURATION,) = re.findall(r"^```proto\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
TEXT = "Paris is the capital of [MASK]."


@pytest.fixture(scope="module")
def folder(target: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both models, and the likeliest words that the server says they give."""
    made = tmp_path_factory.mktemp("elsewhere")
    half = bertscope.keep_layers([0, 2, 4])
    with bertscope.Client(target) as client:
        for name, steps in {"cut": [half], "cut-int8": [half, bertscope.int8(), bertscope.onnx()]}.items():
            client.compress_model(name, steps, folder=str(made / name))
            (answer,) = client.fill_mask(TEXT, model=name, top_k=1)
            (likeliest,) = answer.masks[0].predictions
            (made / f"{name}.txt").write_text(likeliest.token, encoding="utf-8")
            client.unload_model(name)
    return made


def run(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAMS[program]], capture_output=True, text=True, timeout=granted(120), cwd=folder, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_onnx_runtime_gives_what_the_server_gives(folder: Path) -> None:
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "cut-int8" / "tokenizer.json"))
    assert tokenizer.id_to_token(int(run("ONNX Runtime", folder))) == (folder / "cut-int8.txt").read_text(encoding="utf-8")


def test_transformers_gives_what_the_server_gives(folder: Path) -> None:
    assert run("transformers", folder).strip("[]' ") == (folder / "cut.txt").read_text(encoding="utf-8")


def test_sentence_transformers_makes_the_server_s_vectors(folder: Path, target: str) -> None:
    rows = re.findall(r"[-\d. e]{5,}", run("sentence-transformers", folder))
    found = np.array([[float(number) for number in row.split()] for row in rows])
    with bertscope.Client(target) as client:
        client.load_model("again", source=str(folder / "cut"))
        vectors = client.embed_texts(["A cat sleeps.", "A dog sleeps.", "Stocks fell."], model="again", normalize=True).vectors
        client.unload_model("again")
    np.testing.assert_allclose(found, vectors @ vectors.T, rtol=0, atol=1e-5)


def test_triton_s_configuration_is_that_of_the_graph(folder: Path) -> None:
    session = onnxruntime.InferenceSession(folder / "cut-int8" / "model.onnx")
    parts = re.findall(r'name: "(\w+)" data_type: TYPE_(\w+) dims: \[ ([^]]+) \]', CONFIGURATION)
    kinds = {"INT64": "tensor(int64)", "FP32": "tensor(float)"}
    values = {value.name: value for value in (*session.get_inputs(), *session.get_outputs())}
    for name, kind, dimensions in parts:
        assert kinds[kind] == values[name].type
        assert len(dimensions.split(",")) == len(values[name].shape) - 1  # the batch is not written
    assert {value.name for value in session.get_inputs()} <= {name for name, _, _ in parts}
