"""ONNX files as optimum writes them, one of each head, answer through the server as the checkpoints they were made from."""

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import onnx
import pytest
import torch
from bertscope.v1 import model_pb2
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.models.runtimes import RuntimeRequest, RuntimeSettings, read_encoders
from onnxruntime.quantization import quantize_dynamic
from onnxruntime.transformers.float16 import convert_float_to_float16
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from tests.support.calls import call, get, refusal
from tests.support.harness import Host, LoopThread, launched
from tests.support.reply_numbers import numbers_of
from tests.support.tiny import write_checkpoint

pytestmark = pytest.mark.slow

LAYERS = 4
TEXTS = ["The cat [MASK] on the mat.", "The river is long, the garden is green, and the house is [MASK]."]
INPUTS = [{"text": text} for text in TEXTS]
PASSAGES = [{"question": "Who sat?", "passage": text} for text in TEXTS]

HEADS: dict[str, tuple[Any, list[str], dict[str, Any]]] = {
    "filler": (AutoModelForMaskedLM, ["logits"], {}),
    "sorter": (AutoModelForSequenceClassification, ["logits"], {"labels": 3}),
    "several": (AutoModelForSequenceClassification, ["logits"], {"labels": 3, "problem": "multi_label_classification"}),
    "rater": (AutoModelForSequenceClassification, ["logits"], {"labels": 1}),
    "tagger": (AutoModelForTokenClassification, ["logits"], {"labels": 4, "task": "tokens"}),
    "answerer": (AutoModelForQuestionAnswering, ["start_logits", "end_logits"], {"labels": 2, "task": "answers"}),
    "encoder": (AutoModel, ["last_hidden_state"], {"head": False}),
    "sentences": (AutoModel, ["token_embeddings", "sentence_embedding"], {"head": False}),
}
"""The class of transformers, the names of the outputs, and how the checkpoint is written."""

QUESTIONS: dict[str, tuple[str, dict[str, Any], str]] = {
    "filler": ("FillMask", {"texts": TEXTS, "top_k": 5}, "CLOZE"),
    "sorter": ("Classify", {"inputs": INPUTS}, "CLASSIFICATION"),
    "several": ("Classify", {"inputs": INPUTS}, "MULTI_LABEL"),
    "rater": ("PredictValues", {"inputs": INPUTS}, "REGRESSION"),
    "tagger": ("ClassifyTokens", {"inputs": [{"input": one} for one in INPUTS], "top_k": 4}, "TOKEN_CLASSIFICATION"),
    "answerer": (
        "AnswerQuestions",
        {"inputs": [{"question": "Who sat?", "passage": text} for text in TEXTS]},
        "QUESTION_ANSWERING",
    ),
    "encoder": ("EmbedTexts", {"inputs": INPUTS}, "LAST_STATES"),
    "sentences": ("ExtractHiddenStates", {"inputs": INPUTS, "layers": [LAYERS]}, "LAST_STATES"),
}


class Exported(torch.nn.Module):
    """A model of transformers with tensors for inputs and outputs."""

    def __init__(self, model: torch.nn.Module, outputs: list[str]) -> None:
        super().__init__()
        self.model, self.outputs = model, outputs

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, segments: torch.Tensor) -> Any:
        found = self.model(input_ids=ids, attention_mask=mask, token_type_ids=segments)
        if self.outputs[0] == "token_embeddings":
            return found.last_hidden_state, found.last_hidden_state.mean(1)
        return tuple(found[name] for name in self.outputs)


def export(kind: Any, outputs: list[str], folder: Path, target: Path) -> None:
    model = kind.from_pretrained(folder, attn_implementation="eager").eval()
    names = ["input_ids", "attention_mask", "token_type_ids"]
    example = tuple(torch.ones((2, 5), dtype=torch.int64) for _ in names)
    axes = {name: {0: "batch", 1: "length"} for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this exporter is optimum's, and on its way out
        torch.onnx.export(
            *(Exported(model, outputs).eval(), example, str(target)),
            input_names=names,
            output_names=outputs,
            dynamic_axes=axes,
            dynamo=False,
            opset_version=17,
        )


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A checkpoint of each head, and as name-onnx a folder with its graph alone; of the tagger in 8 bits and fp16, too."""
    root, found = tmp_path_factory.mktemp("heads"), dict[str, Path]()
    for name, (kind, outputs, written) in HEADS.items():
        folder = found[name] = write_checkpoint("bert", root / name, **written)
        graph = found[f"{name}-onnx"] = Path(shutil.copytree(folder, root / f"{name}-onnx"))
        (graph / "model.safetensors").unlink()
        (graph / "onnx").mkdir()
        export(kind, outputs, folder, graph / "onnx" / "model.onnx")
    whole = found["tagger-onnx"] / "onnx" / "model.onnx"
    for name in ("tagger-int8", "tagger-fp16"):
        found[name] = Path(shutil.copytree(found["tagger-onnx"], root / name))
    quantize_dynamic(whole, found["tagger-int8"] / "onnx" / "model.onnx")
    onnx.save(convert_float_to_float16(onnx.load(whole)), found["tagger-fp16"] / "onnx" / "model.onnx")
    return found


@pytest.fixture(scope="module")
def host(loop: LoopThread, folders: dict[str, Path]) -> Iterator[Host]:
    with launched(loop, model=[f"{name}={folder}" for name, folder in folders.items()], runtime="auto") as running:
        yield running


def ask(host: Host, name: str, head: str) -> Any:
    rpc, fields, _ = QUESTIONS[head]
    found = call(host, rpc, model=f"models/{name}", **fields)
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize("head", HEADS)
def test_a_graph_answers_as_its_checkpoint(host: Host, head: str) -> None:
    ours, theirs = (
        numbers_of(one if isinstance(one, list) else [one]) for one in (ask(host, f"{head}-onnx", head), ask(host, head, head))
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    model = get(host, f"models/{head}-onnx")
    capabilities = [model_pb2.Capability.Name(one).removeprefix("CAPABILITY_") for one in model.capabilities]
    assert capabilities == [QUESTIONS[head][2]]
    assert not model.runs_texts_alone


def tags(host: Host, name: str, *texts: str) -> list[list[float]]:
    reply = call(host, "ClassifyTokens", model=f"models/{name}", inputs=[{"input": {"text": text}} for text in texts], top_k=4)
    return [[label.logit for word in result.words for label in word.labels] for result in reply.results]


def test_a_graph_in_8_bits_answers_as_for_the_text_alone(host: Host, folders: dict[str, Path]) -> None:
    [alone] = tags(host, "tagger-int8", TEXTS[0])
    assert tags(host, "tagger-int8", TEXTS[0], *TEXTS[1:] * 3)[0] == alone
    assert get(host, "models/tagger-int8").runs_texts_alone
    # Together, as an operator may choose, it depends on who is beside it.
    source, asked = inspect(folders["tagger-int8"]), RuntimeRequest("onnx", "fp32", torch.device("cpu"))
    (mixed,) = read_encoders(source, "", asked, RuntimeSettings(folders["tagger-int8"], threads=1, mixed_batches=True))
    tokenizer = host.server.registry.find("models/tagger-int8").loaded.tokenizer
    rows = [tokenizer.encode(text).sequence for text in TEXTS]
    found = []
    for batch in (rows[:1], rows):
        state = mixed.begin(batch)
        mixed.advance(state, mixed.shape.layers)
        found.append(state.hidden[0, : len(rows[0])])
    assert (found[0] - found[1]).abs().max() > 1e-3


def test_a_graph_in_half_precision_is_near(host: Host) -> None:
    ours, theirs = tags(host, "tagger-fp16", *TEXTS), tags(host, "tagger", *TEXTS)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-2, atol=2e-2)
    assert not get(host, "models/tagger-fp16").runs_texts_alone


def test_states_of_other_layers_are_refused(host: Host) -> None:
    fields = {"model": "models/encoder-onnx", "inputs": INPUTS, "layers": [1]}
    assert refusal(host, "ExtractHiddenStates", code=grpc.StatusCode.UNIMPLEMENTED, **fields).info.reason == "NO_STATES"
