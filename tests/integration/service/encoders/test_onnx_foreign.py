"""ONNX files of other programs: whatever their inputs and however they say their sizes, and what can't be hosted is named."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from bertscope_service.checkpoints.sources import locate
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.errors import FailedPrecondition
from bertscope_service.models.runtimes import RuntimeRequest, RuntimeSettings, read_encoders
from bertscope_service.observability.machine import memory_limit
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, LABELS = 11, 3
SMALL = 100
"""Bytes of tensors that stay in the graph; ONNX Runtime must know sizes before it opens files."""

CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "hidden_size": 8,
    "max_position_embeddings": 16,
    "vocab_size": VOCABULARY,
}
ROWS = [TokenSequence([3, 1, 4, 1], [0, 0, 1, 1]), TokenSequence([5], [0])]


def table(width: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=(VOCABULARY, width)).astype(np.float32)


def graph(
    *,
    labels: int = 0,
    number: int = TensorProto.INT64,
    scores: int = TensorProto.FLOAT,
    segments: bool = True,
    sizes: tuple[int | str, ...] = ("batch", "length"),
    says_shape: bool = True,
) -> onnx.ModelProto:
    """Scores of a token are its row in a table, plus its segment; of a text, the sum over its tokens."""
    width = labels or VOCABULARY
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if segments else [])]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["looked"]),
        helper.make_node("Cast", ["attention_mask"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["real", "two"], ["wide"]),
    ]
    if segments:
        nodes += [
            helper.make_node("Cast", ["token_type_ids"], ["kinds"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["kinds", "two"], ["kind"]),
            helper.make_node("Add", ["looked", "kind"], ["added"]),
        ]
    nodes.append(helper.make_node("Mul", ["added" if segments else "looked", "wide"], ["tokens"]))
    last = "tokens"
    if labels:
        nodes.append(helper.make_node("ReduceSum", ["tokens", "one"], ["text"], keepdims=0))
        last = "text"
    nodes.append(helper.make_node("Cast", [last], ["logits"], to=scores))
    shape = [sizes[0], *([] if labels else [sizes[1]]), width] if says_shape else None
    body = helper.make_graph(
        nodes,
        "foreign",
        [helper.make_tensor_value_info(name, number, sizes) for name in names],
        [helper.make_tensor_value_info("logits", scores, shape)],
        [
            numpy_helper.from_array(table(width), "table"),
            numpy_helper.from_array(np.array([1]), "one"),
            numpy_helper.from_array(np.array([2]), "two"),
        ],
    )
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def write(folder: Path, model: onnx.ModelProto, config: dict[str, Any] = CONFIG, name: str = "model.onnx", **how: Any) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    onnx.save(model, str(file), **how)
    return file


def load(source: Path | str) -> Encoder:
    found, cpu = locate(str(source), "", lambda _: None), torch.device("cpu")
    digest = found.digest(lambda _: None)
    (encoder,) = read_encoders(found, digest, RuntimeRequest("auto", "fp32", cpu), RuntimeSettings(Path("/nowhere"), threads=1))
    return encoder


def refused(source: Path | str) -> str:
    with pytest.raises(FailedPrecondition) as caught:
        load(source)
    assert caught.value.reason == "SOURCE_UNREADABLE"
    assert "\n" not in caught.value.message
    return caught.value.message


def scores(encoder: Encoder) -> torch.Tensor:
    """[tokens, vocabulary] of the real tokens of `ROWS`, or [rows, labels]."""
    state = encoder.begin(ROWS)
    encoder.advance(state, 1)
    encoder.advance(state, encoder.shape.layers)
    if encoder.shape.labels:
        return encoder.classify(state)
    return encoder.logits(state, torch.tensor([0, 0, 0, 0, 1]), torch.tensor([0, 1, 2, 3, 0]))


def truth(width: int, *, segments: bool) -> torch.Tensor:
    rows = [torch.from_numpy(table(width))[torch.tensor(row.ids)] for row in ROWS]
    if segments:
        rows = [looked + torch.tensor(row.segments)[:, None] for looked, row in zip(rows, ROWS, strict=True)]
    return torch.cat(rows) if width == VOCABULARY else torch.stack([row.sum(dim=0) for row in rows])


FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "32-bit ids": {"number": TensorProto.INT32},
    "no segments": {"segments": False},
    "sizes unsaid": {"says_shape": False},
    "a classifier": {"labels": LABELS},
    "a classifier, sizes unsaid": {"labels": LABELS, "says_shape": False},
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_forms(tmp_path: Path, form: dict[str, Any]) -> None:
    encoder = load(write(tmp_path, graph(**form)))
    width = form.get("labels", VOCABULARY)
    torch.testing.assert_close(scores(encoder), truth(width, segments=form.get("segments", True)))
    # transformers names labels so that a config.json does not.
    assert encoder.shape.labels == (tuple(f"LABEL_{number}" for number in range(LABELS)) if "labels" in form else ())
    assert encoder.shape.parameters == table(width).size + 2


def test_places(tmp_path: Path) -> None:
    """A file, its folder, a folder "onnx" in it, a folder that is called like a file; tensors beside the graph."""
    apart = write(tmp_path / "apart", graph(), save_as_external_data=True, location="model.data", size_threshold=SMALL)
    inside = write(tmp_path / "inside", graph(), name="onnx/model.onnx")
    write(tmp_path / "inside", graph(labels=2), name="onnx/model_quantized.onnx")
    named = write(tmp_path / "named.onnx", graph())
    expected = truth(VOCABULARY, segments=True)
    for source in (apart, f"{apart.parent}/", inside, inside.parent.parent, named, named.parent, f"{named.parent}/"):
        torch.testing.assert_close(scores(load(source)), expected)
    found = locate(str(apart), "", lambda _: None)
    assert [path.name for path in found.weight_files] == ["model.onnx", "model.data"]


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "fixed sizes": ({"sizes": (1, 8)}, {}, "any number of texts of any length"),
    "scores that are no floats": ({"scores": TensorProto.INT64}, {}, "tensor(int64)"),
    "strange ids": ({"number": TensorProto.UINT8}, {}, "tensor(uint8)"),
    "another vocabulary": ({}, {"vocab_size": 12}, "gives 11 scores a token"),
    "another vocabulary, unsaid": ({"says_shape": False}, {"vocab_size": 12}, "gives 11 scores a token"),
    "too few names": ({"labels": LABELS}, {"id2label": {"0": "a", "1": "b"}}, "correct id2label"),
    "names of nothing": ({"labels": LABELS}, {"id2label": {"x": "a", "y": "b", "z": "c"}}, "correct id2label"),
    "names in a list": ({"labels": LABELS}, {"id2label": ["a", "b", "c"]}, "correct id2label"),
    "several values": ({"labels": LABELS}, {"problem_type": "regression"}, "gives 3 values a text"),
    "one label": ({"labels": 1}, {"problem_type": "single_label_classification"}, "gives 1 scores a text"),
    "no sizes": ({}, {"hidden_size": None}, "hidden_size"),
}


@pytest.mark.parametrize(
    ("form", "changes", "capability", "labels"),
    [
        ({"labels": 1}, {}, "regression", ()),
        ({"labels": LABELS}, {"problem_type": "multi_label_classification"}, "multi_label", ("a", "b", "c")),
        ({"labels": LABELS}, {"problem_type": "single_label_classification"}, "classification", ("a", "b", "c")),
        ({"scores": TensorProto.FLOAT16}, {"architectures": ["BertForMaskedLM"]}, "masked_lm", ()),
        # As many labels of tokens as entries of the vocabulary: only the architecture tells.
        ({}, {"architectures": ["BertForTokenClassification"]}, "token_classification", tuple("abcdefghijk")),
    ],
)
def test_the_config_tells_the_head(
    tmp_path: Path, form: dict[str, Any], changes: dict[str, Any], capability: str, labels: tuple[str, ...]
) -> None:
    names = {"id2label": dict(enumerate(labels))} if labels else {}
    encoder = load(write(tmp_path, graph(**form), CONFIG | changes | names))
    capabilities = asdict(encoder.capabilities)
    assert [name for name, has in capabilities.items() if has] == [capability]
    assert encoder.shape.label_names == labels


@pytest.mark.parametrize("kind", ["data2vec-text", "ibert", "xmod", "luke", "lilt", "roberta", "camembert", "bert"])
def test_positions_behind_the_padding_index_are_no_places(tmp_path: Path, kind: str) -> None:
    encoder = load(write(tmp_path, graph(), CONFIG | {"model_type": kind, "pad_token_id": 1}))
    assert encoder.shape.max_tokens == (16 if kind == "bert" else 14)


@pytest.mark.parametrize(("form", "changes", "words"), WRONG.values(), ids=WRONG)
def test_what_can_not_be_hosted(tmp_path: Path, form: dict[str, Any], changes: dict[str, Any], words: str) -> None:
    assert words in refused(write(tmp_path, graph(**form), CONFIG | changes))


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "deeper/secret", "*/_ORT_MEM_ADDR_/*", "link"])
@pytest.mark.parametrize("in_a_branch", [False, True])
def test_tensors_lie_beside_the_graph(tmp_path: Path, location: str, in_a_branch: bool) -> None:
    """Wherever in the graph one is hidden; of attributes see models/test_onnx.py."""
    folder = tmp_path / "model"
    (folder / "deeper").mkdir(parents=True)
    for path in (tmp_path / "secret", folder / "deeper" / "secret"):
        path.write_bytes(bytes(64))
    (folder / "link").symlink_to(tmp_path / "secret")
    model, tensor = graph(), TensorProto(name="stolen", data_type=TensorProto.FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    if in_a_branch:
        output = helper.make_tensor_value_info("stolen", TensorProto.FLOAT, [4])
        branch = helper.make_graph([], "branch", [], [output], [tensor])
        model.graph.initializer.append(numpy_helper.from_array(np.array([True]), "yes"))
        model.graph.node.append(helper.make_node("If", ["yes"], ["taken"], then_branch=branch, else_branch=branch))
    else:
        model.graph.initializer.append(tensor)
    file = folder / "model.onnx"
    (folder / "config.json").write_text(json.dumps(CONFIG))
    file.write_bytes(model.SerializeToString())
    assert f"its weights lie in {location!r}" in refused(file)


@pytest.mark.slow
@pytest.mark.parametrize(("key", "value"), [("offset", "x"), ("offset", "-4"), ("offset", str(1 << 70)), ("length", "1e3")])
def test_places_in_a_file_that_are_none(tmp_path: Path, key: str, value: str) -> None:
    file = write(tmp_path, graph(), save_as_external_data=True, location="model.data", size_threshold=SMALL)
    model = onnx.load(str(file), load_external_data=False)
    entries = [entry for tensor in model.graph.initializer for entry in tensor.external_data if entry.key == key]
    entries[0].value = value
    load(file)
    file.write_bytes(model.SerializeToString())
    refused(file)


def test_files_that_are_none(tmp_path: Path) -> None:
    file = write(tmp_path, graph(), save_as_external_data=True, location="model.data", size_threshold=SMALL)
    (tmp_path / "model.data").unlink()
    assert "'model.data' beside it, which does not exist" in refused(file)
    for content in (b"", b"\x08", b"not a graph at all"):
        file.write_bytes(content)
        refused(file)
        refused(tmp_path)
    assert "no file" in refused(tmp_path / "missing.onnx")
    assert "can't be found" in refused("~nobody-of-this-name/model.onnx")
    assert "can't be read" in refused(f"/{'x' * 300}.onnx")
    assert "no file" in refused("/nul\0l.onnx")


def greedy() -> onnx.ModelProto:
    """The plain graph; a token of the last entry makes it take ten times the machine's memory."""
    model = graph()
    looked = next(node for node in model.graph.node if node.output[0] == "looked")
    looked.output[0] = "modest"
    nodes = [
        helper.make_node("ReduceMax", ["input_ids"], ["largest"], keepdims=0),
        helper.make_node("Div", ["largest", "last"], ["greed"]),
        helper.make_node("Mul", ["greed", "numbers"], ["wanted"]),
        helper.make_node("Reshape", ["wanted", "one"], ["size"]),
        helper.make_node("ConstantOfShape", ["size"], ["zeros"]),
        helper.make_node("ReduceSum", ["zeros"], ["nothing"], keepdims=0),
        helper.make_node("Add", ["modest", "nothing"], ["looked"]),
    ]
    place = list(model.graph.node).index(looked) + 1
    rest = list(model.graph.node)[place:]
    del model.graph.node[place:]
    model.graph.node.extend([*nodes, *rest])
    numbers = {"last": VOCABULARY - 1, "numbers": 10 * memory_limit() // 4}
    model.graph.initializer.extend(numpy_helper.from_array(np.array(value), name) for name, value in numbers.items())
    return model


def test_a_graph_that_wants_more_than_the_machine_has_is_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its trial shows nothing: what it takes is computed from the texts. Others run on, and the log names it."""
    encoder = load(write(tmp_path, greedy()))
    state = encoder.begin([TokenSequence([3, VOCABULARY - 1], [0, 0])])
    with pytest.raises(torch.OutOfMemoryError):
        encoder.advance(state, encoder.shape.layers)
    assert str(tmp_path) in caplog.text
    assert "'input_ids': (1, 2)" in caplog.text
    torch.testing.assert_close(scores(encoder), truth(VOCABULARY, segments=True))
