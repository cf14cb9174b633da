"""Models run by ONNX Runtime through gRPC: the answers of torch, and clear errors for what can't be."""

import json
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import onnx
import pytest
import torch
from bertscope.inference import open_inference_pb2_grpc
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import attribution_pb2 as attribution
from bertscope.v1 import classification_pb2 as classification
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import model_pb2 as model
from bertscope.v1 import representation_states_pb2 as states
from bertscope.v1 import target_pb2
from bertscope_service.checkpoints.steps import KeepLayers
from bertscope_service.contract import METHODS, Method, Work
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import State
from bertscope_service.models.warm_up import warm_up
from numpy.testing import assert_allclose
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification

from tests.support.compressed import make
from tests.support.exports import load_exported
from tests.support.harness import Host, LoopThread, launched, refused
from tests.support.patience import granted
from tests.support.reply_numbers import numbers_of
from tests.support.sweeps import (
    MASKED,
    MEAN,
    REFERENCES,
    UNIFORM,
    cloze_prompts,
    interventions,
    labelled,
    masked_lm,
    matrix,
    rank,
    sweep,
    text_input,
)
from tests.support.tensors import arrays_of, padded, request_of
from tools.protos.samples import good

LOAD_SECONDS = granted(90.0)
TWINS = (("models/bert", "models/graphs"), ("models/sorter", "models/sorting-graphs"))


def load(host: Host, **fields: Any) -> model.Model:
    fields.setdefault("runtime", common.RUNTIME_AUTO)
    *_, last = host.models.LoadModel(model.LoadModelRequest(**fields), timeout=LOAD_SECONDS)
    assert last.WhichOneof("event") == "model"
    assert isinstance(last.model, model.Model)
    return last.model


@pytest.fixture(scope="module")
def twins(loop: LoopThread, checkpoints: dict[str, Path], sorters: dict[str, Path], export_cache: Path) -> Iterator[Host]:
    """Hosts models/bert and models/sorter by torch, models/graphs and models/sorting-graphs, the same by ONNX Runtime."""
    for folder in (checkpoints["bert"], sorters["sorter"]):
        load_exported(folder, export_cache)  # which takes longer than calls here may
    given = [f"bert={checkpoints['bert']}", f"sorter={sorters['sorter']}"]
    with launched(loop, model=given, cache_folder=export_cache) as host:
        load(host, model_id="graphs", source=str(checkpoints["bert"]), runtime=common.RUNTIME_ONNX)
        load(host, model_id="sorting-graphs", source=str(sorters["sorter"]), runtime=common.RUNTIME_ONNX)
        yield host


@pytest.fixture(scope="module")
def export(export_cache: Path, twins: Host) -> Path:
    """The folder that models/graphs was read from."""
    loaded = twins.server.registry.find("models/graphs").loaded
    assert loaded is not None
    manifests = (json.loads(path.read_text()) | {"folder": path.parent} for path in export_cache.glob("onnx/*/bertscope.json"))
    (folder,) = (found["folder"] for found in manifests if found["source_digest"] == loaded.weights_digest)
    assert isinstance(folder, Path)
    return folder


ASKED = [method for method in METHODS.values() if method.work is Work.INTERACTIVE and method.name != "ModelInfer"]
"""Trainings enlarge what rounding differs; tensors have tests of their own."""


@pytest.mark.parametrize("method", ASKED, ids=lambda method: method.name)
def test_a_sample_is_answered_as_by_torch(twins: Host, method: Method) -> None:
    """Each rpc's sample that names no model of its own."""
    request: Any = good(Path("/nowhere"))[method.name]
    if request.model:
        return
    answers = []
    for name, other in (TWINS[0], TWINS[0][::-1]):
        request.model = name
        if "other_model" in request.DESCRIPTOR.fields_by_name:
            request.other_model = other
        answers.append(numbers_of(map(method.response.FromString, twins.ask(method, request.SerializeToString()))))
    by_torch, by_onnx = answers
    assert by_torch.shape == by_onnx.shape
    assert_allclose(by_onnx, by_torch, atol=1e-4, rtol=1e-4)


@pytest.fixture
def copied(export: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(export, tmp_path / "copied"))


def fill(host: Host, name: str, **fields: Any) -> cloze.FillMaskResponse:
    reply = host.cloze.FillMask(cloze.FillMaskRequest(model=name, texts=MASKED, top_k=264, **fields), timeout=granted(20))
    assert isinstance(reply, cloze.FillMaskResponse)
    return reply


def logs(reply: cloze.FillMaskResponse) -> np.ndarray[Any, Any]:
    """[masks, vocabulary]."""
    masks = [mask for result in reply.results for mask in result.masks]
    found = np.zeros((len(masks), 264))
    for row, mask in enumerate(masks):
        found[row, [prediction.piece_ids[0] for prediction in mask.predictions]] = [p.log_probability for p in mask.predictions]
    return found


def test_changes_sweeps_and_gradients_are_those_of_torch_and_provenance_says_who_ran(twins: Host) -> None:
    changes = interventions({(1, 2): (MEAN, 1.0), (2, 0): (MEAN, 1.0)})
    filled = [fill(twins, name, interventions=changes, reference_texts=REFERENCES) for name in TWINS[0]]
    assert_allclose(logs(filled[1]), logs(filled[0]), atol=1e-4)
    assert filled[1].provenance.runtime == common.RUNTIME_ONNX
    assert filled[1].provenance.library_versions["onnxruntime"]
    assert filled[1].provenance.weights_digest == filled[0].provenance.weights_digest
    texts = masked_lm(["Paris is the capital of France.", "The cat sat on the mat."])
    for names, fields in (
        (TWINS[0], {"objective": cloze_prompts(skip_multi_piece=True), "mode": MEAN, "reference_texts": REFERENCES}),
        (TWINS[1], {"objective": labelled(), "mode": MEAN, "reference_texts": REFERENCES}),
        (TWINS[0], {"objective": texts, "greedy": {"order": "ORDER_IMPORTANCE", "step": 8}}),
    ):
        by_torch, by_onnx = (sweep(twins, model=name, **fields).numbers for name in names)
        assert_allclose(by_onnx, by_torch, atol=1e-4)
    expected, found = (rank(twins, model=name, objective=texts) for name in TWINS[0])
    assert_allclose(matrix(found.importance), matrix(expected.importance), atol=1e-6)
    assert (found.provenance.runtime, found.provenance.model) == (common.RUNTIME_TORCH, "models/graphs")


class Unusable:
    """A model's encoder that fails when it is run."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def begin(self, sequences: Sequence[TokenSequence]) -> State:
        raise RuntimeError("no such kernel")


@pytest.mark.parametrize("broken", ["torch", "onnx"])
def test_auto_takes_what_works(twins: Host, caplog: pytest.LogCaptureFixture, broken: str) -> None:
    loaded = {name: twins.server.registry.find(model).loaded for name, model in zip(("torch", "onnx"), TWINS[0], strict=True)}
    encoders = [Unusable(one.encoder) if name == broken else one.encoder for name, one in loaded.items() if one is not None]
    assert loaded["torch"] is not None
    undecided = replace(loaded["torch"], encoder=encoders[0], alternatives=(encoders[1],))
    decided = twins.loop.run(warm_up(twins.server.engine, undecided))
    assert decided.encoder.runtime != broken
    assert decided.alternatives == ()
    assert f"can't be served by {broken}: no such kernel" in caplog.text
    hopeless = replace(undecided, encoder=Unusable(encoders[0]), alternatives=(Unusable(encoders[1]),))
    with pytest.raises(RuntimeError, match="no such kernel"):
        twins.loop.run(warm_up(twins.server.engine, hopeless))


def test_graphs_have_one_number_format(twins: Host, checkpoints: dict[str, Path]) -> None:
    with refused(grpc.StatusCode.UNIMPLEMENTED) as failures:
        load(
            twins,
            model_id="half",
            source=str(checkpoints["bert"]),
            runtime=common.RUNTIME_ONNX,
            precision=common.PRECISION_BFLOAT16,
        )
    assert failures[0].info.reason == "RUNTIME_UNSUPPORTED"
    assert "use runtime torch" in failures[0].message


def test_an_export_loads_by_itself_and_not_by_torch(twins: Host, copied: Path) -> None:
    found = load(twins, model_id="alone", source=str(copied), runtime=common.RUNTIME_AUTO)
    try:
        assert found.runtime == common.RUNTIME_ONNX
        assert [step.step for step in found.compression] == ["onnx"]
        assert model.CAPABILITY_RANKING not in found.capabilities
        assert_allclose(logs(fill(twins, "models/alone")), logs(fill(twins, "models/bert")), atol=1e-4)
        with refused(grpc.StatusCode.UNIMPLEMENTED) as failures:
            rank(twins, model="models/alone", objective=masked_lm(["The cat sat."]))
        assert failures[0].info.reason == "NO_GRADIENTS"
    finally:
        twins.models.UnloadModel(model.UnloadModelRequest(name="models/alone"), timeout=granted(20))
    with refused(grpc.StatusCode.UNIMPLEMENTED) as failures:
        load(twins, model_id="alone", source=str(copied), runtime=common.RUNTIME_TORCH)
    assert failures[0].info.reason == "RUNTIME_UNSUPPORTED"


def cut_short(folder: Path) -> None:
    path = folder / "weights.bin"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def place_weights(folder: Path, key: str, value: str) -> None:
    """Another place in a file for a tensor."""
    graph = onnx.load(folder / "fast.onnx", load_external_data=False)
    tensor = next(tensor for tensor in graph.graph.initializer if tensor.data_location == onnx.TensorProto.EXTERNAL)
    next(entry for entry in tensor.external_data if entry.key == key).value = value
    onnx.save(graph, folder / "fast.onnx")


def hidden_elsewhere(folder: Path) -> None:
    """In an attribute, not among the initialisers."""
    graph = onnx.load(folder / "fast.onnx", load_external_data=False)
    tensor = onnx.TensorProto(data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="/etc/passwd")
    graph.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["stolen"], value=tensor))
    onnx.save(graph, folder / "fast.onnx")


def change_details(folder: Path, **changes: Any) -> None:
    """None leaves one out."""
    path = folder / "bertscope.json"
    manifest = json.loads(path.read_text())
    details = manifest["details"] | changes
    path.write_text(json.dumps(manifest | {"details": {key: value for key, value in details.items() if value is not None}}))


def newer(folder: Path) -> None:
    graph = onnx.load(folder / "fast.onnx", load_external_data=False)
    next(opset for opset in graph.opset_import if not opset.domain).version = 999
    onnx.save(graph, folder / "fast.onnx")


BREAKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no weights": (lambda folder: (folder / "weights.bin").unlink(), "weights.bin does not exist"),
    "half the weights": (cut_short, "weights.bin ends before"),
    "no graph": (lambda folder: (folder / "analysis.onnx").unlink(), "analysis.onnx does not exist"),
    "not a graph": (lambda folder: (folder / "fast.onnx").write_bytes(b"nonsense"), "fast.onnx"),
    "empty graph": (lambda folder: (folder / "fast.onnx").write_bytes(b""), "fast.onnx"),
    "weights elsewhere": (lambda folder: place_weights(folder, "location", "../../secret"), "not in weights.bin"),
    "weights hidden elsewhere": (hidden_elsewhere, "'/etc/passwd', not in weights.bin"),
    "weights before the file": (lambda folder: place_weights(folder, "offset", "-4096"), "has no place there"),
    "details left out": (lambda folder: change_details(folder, head_size=None), "head_size"),
    "details that are wrong": (lambda folder: change_details(folder, head_size=9), "can't be run"),
    "unknown opset": (newer, "999"),
    "no manifest": (lambda folder: (folder / "bertscope.json").unlink(), "bertscope.json"),
    "another manifest": (lambda folder: (folder / "bertscope.json").write_text("{}"), "bertscope.json"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_export_is_refused_by_name(twins: Host, copied: Path, name: str) -> None:
    damage, words = BREAKS[name]
    damage(copied)
    with refused(grpc.StatusCode.FAILED_PRECONDITION) as failures:
        load(twins, model_id="broken", source=str(copied), runtime=common.RUNTIME_ONNX)
    assert failures[0].info.reason == "SOURCE_UNREADABLE"
    assert words in failures[0].message
    assert "\n" not in failures[0].message


@pytest.fixture(scope="module")
def foreign(
    checkpoints: dict[str, Path], sorters: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Folders as other exporters write them: one graph from ids to logits, all of the weights in it. One layer each, whose
    checkpoints are in folders of their own."""
    found, root = {}, tmp_path_factory.mktemp("foreign")
    kinds = (
        ("fill", AutoModelForMaskedLM, checkpoints["bert"]),
        ("sort", AutoModelForSequenceClassification, sorters["sorter"]),
    )
    for name, kind, whole in kinds:
        folder = found[f"{name}-checkpoint"] = make(whole, root / f"{name}-checkpoint", KeepLayers((0,)))
        target = Path(shutil.copytree(folder, root / name))
        (target / "bertscope.json").unlink()
        whole = kind.from_pretrained(folder, attn_implementation="eager").eval()
        names = ("input_ids", "attention_mask", "token_type_ids")
        example = {key: torch.ones((2, 5), dtype=torch.int64) for key in names}
        sizes = {key: {0: torch.export.Dim("batch"), 1: torch.export.Dim("length")} for key in names}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the exporter says what it does with names of sizes
            program = torch.onnx.export(
                whole,
                kwargs=example,
                dynamo=True,
                dynamic_shapes=sizes,
                input_names=names,
                output_names=["logits"],
                verbose=False,
            )
        assert program is not None
        program.save(target / "model.onnx", external_data=name == "sort")
        (target / "model.safetensors").unlink()
        found[name] = target
    return found


def tensors(host: Host, name: str, output: str) -> dict[str, Any]:
    """What the Open Inference Protocol gives for two texts, one of them padded."""
    ids, mask = padded([[2, 7, 8, 9, 3], [2, 5, 3]])
    request = request_of({"input_ids": ids, "attention_mask": mask}, [output], model=name)
    return arrays_of(open_inference_pb2_grpc.GRPCInferenceServiceStub(host.channel).ModelInfer(request, timeout=granted(20)))


FILLED = target_pb2.Target(mask=target_pb2.MaskTarget(answer="the", other="cat"))
SORTED = target_pb2.Target(label=target_pb2.LabelTarget())


def explained(host: Host, name: str, target: target_pb2.Target, **fields: Any) -> list[float]:
    """Values of words by Shapley."""
    given = attribution.AttributedText(text="The [MASK] sat on a mat.", target=target)
    request = attribution.AttributeWordsRequest(model=name, inputs=[given], **fields)
    (found,) = host.attribution.AttributeWords(request, timeout=granted(20)).results
    assert abs(found.rest) < 1e-9
    return list(found.values)


@pytest.mark.slow
def test_foreign_files_answer_what_they_can(twins: Host, foreign: dict[str, Path]) -> None:
    filler = load(twins, model_id="filler", source=str(foreign["fill"] / "model.onnx"))
    sorter = load(twins, model_id="sort", source=str(foreign["sort"]))
    by_torch = [
        load(twins, model_id=name, source=str(foreign[name]), runtime=common.RUNTIME_TORCH)
        for name in ("fill-checkpoint", "sort-checkpoint")
    ]
    try:
        assert list(filler.capabilities) == [model.CAPABILITY_CLOZE]
        assert list(sorter.capabilities) == [model.CAPABILITY_CLASSIFICATION]
        assert (filler.layers, filler.heads, filler.max_tokens) == (1, 4, 64)
        assert_allclose(logs(fill(twins, filler.name)), logs(fill(twins, by_torch[0].name)), atol=1e-4)
        request = classification.ClassifyRequest(inputs=[text_input("The cat sat."), text_input("Isn't it?", "It is so.")])
        probabilities = []
        for name in (sorter.name, by_torch[1].name):
            request.model = name
            results = twins.classification.Classify(request, timeout=granted(20)).results
            probabilities.append([[label.probability for label in result.labels] for result in results])
        assert_allclose(probabilities[0], probabilities[1], atol=1e-5)
        words = [explained(twins, one.name, FILLED) for one in (filler, by_torch[0])]
        words += [explained(twins, one.name, SORTED) for one in (sorter, by_torch[1])]
        assert_allclose(words[::2], words[1::2], atol=1e-4)
        for names in ((filler.name, by_torch[0].name), (sorter.name, by_torch[1].name)):
            assert_allclose(*(tensors(twins, name, "logits")["logits"] for name in names), atol=1e-4)
        similar = target_pb2.Target(similarity=target_pb2.SimilarityTarget(other=text_input("A cat.")))
        gradient = attribution.ATTRIBUTION_METHOD_GRADIENT
        changed = interventions({(0, 0): (UNIFORM, 1.0)})
        maps = attention.ExtractAttentionRequest(model=filler.name, inputs=[text_input("The cat sat.")])
        extract = states.ExtractHiddenStatesRequest(model=filler.name, inputs=[text_input("The cat sat.")])
        lacking: list[tuple[str, Callable[[], object]]] = [
            ("NO_GRADIENTS", lambda: explained(twins, filler.name, FILLED, method=gradient)),
            ("NO_STATES", lambda: explained(twins, filler.name, similar)),
            ("NO_OUTPUT", lambda: tensors(twins, filler.name, "last_hidden_state")),
            ("NOT_OBSERVABLE", lambda: list(twins.attention.ExtractAttention(maps, timeout=granted(20)))),
            ("NO_STATES", lambda: list(twins.representation.ExtractHiddenStates(extract, timeout=granted(20)))),
            ("NOT_OBSERVABLE", lambda: fill(twins, filler.name, interventions=changed)),
        ]
        for reason, call in lacking:
            with refused(grpc.StatusCode.UNIMPLEMENTED) as failures:
                call()
            assert failures[0].info.reason == reason
    finally:
        for found in (filler, sorter, *by_torch):
            twins.models.UnloadModel(model.UnloadModelRequest(name=found.name), timeout=granted(20))
