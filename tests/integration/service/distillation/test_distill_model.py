"""DistillModel: a student learns what its teacher does, beside other calls, and goes on after it was cut off."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
import transformers
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import compression_pb2 as compression
from bertscope.v1 import distillation_pb2 as distillation
from bertscope.v1 import model_pb2 as model
from bertscope_service.distillation import run as running
from bertscope_service.distillation.saved import SavedTraining
from safetensors.torch import load_file

from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, refused
from tests.support.patience import granted, wait_until
from tests.support.tiny import SENTENCES, write_checkpoint

INVALID, EXISTS = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ALREADY_EXISTS
FAILED, UNSUPPORTED = grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNIMPLEMENTED
Step = compression.CompressionStep
LAYERS = Step(layers=compression.LayerSelection(layers=[0, 2]))
INT8 = Step(int8=compression.Int8Quantization())
Objective = distillation.DistillationObjective


@pytest.fixture(scope="module")
def school(loop: LoopThread, checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    more = tmp_path_factory.mktemp("more")
    folders = checkpoints | {"sorter": write_checkpoint("bert", more / "sorter", labels=3)}
    folders["tagger"] = write_checkpoint("bert", more / "tagger", labels=3, task="tokens")
    folders["half"] = more / "half"
    transformers.AutoModelForSequenceClassification.from_pretrained(folders["sorter"]).half().save_pretrained(folders["half"])
    transformers.AutoTokenizer.from_pretrained(folders["sorter"]).save_pretrained(folders["half"])
    folders["topics"] = write_checkpoint("bert", more / "topics", labels=3, problem="multi_label_classification")
    with launched(loop, model=[f"{name}={folder}" for name, folder in folders.items()]) as host:
        yield host


@pytest.fixture(autouse=True)
def unchanged(school: Host) -> Iterator[None]:
    before = school.names()
    yield
    school.unload_all_but(before)
    assert school.names() == before


def texts(*labels: str) -> list[distillation.DistillationText]:
    inputs = [common.TextInput(text=text) for text in SENTENCES]
    if not labels:
        return [distillation.DistillationText(input=one) for one in inputs]
    return [distillation.DistillationText(input=one, label=labels[at % len(labels)]) for at, one in enumerate(inputs)]


def request(folder: Path, *steps: Step, **fields: Any) -> distillation.DistillModelRequest:
    own: dict[str, Any] = {"train": texts(), "dev": texts(), "test": texts(), "epochs": 8, "batch_tokens": 40}
    own |= {"model": "models/bert", "model_id": "student", "learning_rate": 0.003, "seed": 3, "evaluations": 4}
    return distillation.DistillModelRequest(folder=str(folder), steps=steps, **(own | fields))


def distil(host: Host, folder: Path, *steps: Step, **fields: Any) -> tuple[distillation.DistillationReport, model.Model]:
    """The report and the model; what came before must be progress."""
    asked = request(folder, *steps, **fields)
    *before, report, last = host.distillation.DistillModel(asked, timeout=granted(100))
    assert {one.WhichOneof("event") for one in before} == {"progress"}
    return report.report, last.model


def free(host: Host) -> bool:
    """Whether no training runs."""
    return host.metric("bertscope_requests_in_flight", method="DistillModel") == 0


@pytest.mark.slow
def test_a_student_learns_what_its_teacher_does(school: Host, tmp_path: Path) -> None:
    report, made = distil(school, tmp_path / "new" / "student", LAYERS)
    assert made.name == "models/student"
    assert [step.step for step in made.compression] == ["layers", "distill"]
    assert list(report.teacher_layers) == [1, 3]
    assert report.teacher.agreement == 1 and report.teacher.divergence == 0
    assert report.student.divergence < report.untrained.divergence
    shares = {one.metric: one for one in report.recoveries}
    found = shares[ablation.METRIC_DIVERGENCE].share
    lost, left = report.untrained.divergence, report.student.divergence
    assert found == pytest.approx((lost - left) / lost)
    assert 0 < report.best_update <= report.updates
    assert report.best_dev_loss < report.untrained_dev_loss
    assert not report.resumed
    card = (tmp_path / "new" / "student" / "README.md").read_text(encoding="utf-8")
    assert "models/bert" in card and f"{report.student.divergence:.4f}" in card
    assert not (tmp_path / "new" / "student.training").exists()


def scores_by_transformers(folder: Path, teacher: Path) -> tuple[float, float]:
    """How often a classifier agrees with its teacher on the sentences, and KL(teacher || student)."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(teacher)
    read = transformers.AutoModelForSequenceClassification.from_pretrained
    logs = []
    for one in (teacher, folder):
        classifier = read(one, dtype=torch.float32).eval()
        with torch.no_grad():
            rows = [classifier(**tokenizer(text, return_tensors="pt")).logits[0] for text in SENTENCES]
        logs.append(torch.stack(rows).double().log_softmax(-1))
    agreeing = (logs[0].argmax(-1) == logs[1].argmax(-1)).double().mean()
    return float(agreeing), float((logs[0].exp() * (logs[0] - logs[1])).sum(-1).mean())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "stored"), [("sorter", torch.float32), ("half", torch.float16)])
def test_scores_are_those_of_the_saved_folder_by_transformers(
    school: Host, tmp_path: Path, name: str, stored: torch.dtype
) -> None:
    """Of a classifier with gold labels; its texts have no masks, so nothing is drawn. A student is stored as its teacher is."""
    given = texts("negative", "neutral")
    more = {"train": given, "dev": given, "test": given, "objective": Objective(hard=0.5)}
    report, made = distil(school, tmp_path / "student", LAYERS, model=f"models/{name}", **more)
    teacher = Path(school.models.GetModel(model.GetModelRequest(name=f"models/{name}")).model.source)
    assert {one.dtype for one in load_file(tmp_path / "student" / "model.safetensors").values()} == {stored}
    agreement, divergence = scores_by_transformers(tmp_path / "student", teacher)
    assert report.student.agreement == pytest.approx(agreement)
    assert report.student.divergence == pytest.approx(divergence, abs=1e-5)
    assert report.student.predictions == len(SENTENCES)
    assert report.student.answers == len(SENTENCES)
    assert made.labels == school.models.GetModel(model.GetModelRequest(name=f"models/{name}")).model.labels


@pytest.mark.parametrize("name", ["tagger", "topics"])
def test_other_heads_learn_their_teachers_probabilities(school: Host, tmp_path: Path, name: str) -> None:
    """Of the labels of pieces, and of whether each label of a text holds."""
    report, made = distil(school, tmp_path / "student", LAYERS, model=f"models/{name}", truncate=True)
    teacher = Path(school.models.GetModel(model.GetModelRequest(name=f"models/{name}")).model.source)
    tokenizer = transformers.AutoTokenizer.from_pretrained(teacher)
    kind = transformers.AutoModelForTokenClassification if name == "tagger" else transformers.AutoModelForSequenceClassification
    probabilities = []
    for folder in (teacher, tmp_path / "student"):
        read = kind.from_pretrained(folder, dtype=torch.float32).eval()
        with torch.no_grad():
            rows = [read(**tokenizer(text, return_tensors="pt")).logits[0].double() for text in SENTENCES]
        if name == "tagger":
            probabilities.append(torch.cat([row[1:-1].softmax(-1) for row in rows]))
        else:
            holds = torch.cat(rows).sigmoid()
            probabilities.append(torch.stack([1 - holds, holds], dim=-1))
    target, found = probabilities
    assert report.student.predictions == len(target)
    assert report.student.answers == 0
    assert report.student.divergence == pytest.approx(float((target * (target / found).log()).sum(-1).mean()), abs=1e-5)
    assert report.student.agreement == pytest.approx(float((target.argmax(-1) == found.argmax(-1)).double().mean()))
    assert report.student.divergence < report.untrained.divergence
    assert [one.metric for one in report.recoveries] == [ablation.METRIC_DIVERGENCE]
    assert list(made.labels) == list(school.models.GetModel(model.GetModelRequest(name=f"models/{name}")).model.labels)


def test_weights_are_rounded_in_training_as_the_server_rounds_them(school: Host, tmp_path: Path) -> None:
    """The int8 model that is loaded gives what the trained student gave, to rounding."""
    report, made = distil(school, tmp_path / "student", INT8, model="models/sorter", train=texts(), dev=texts(), test=texts())
    assert [step.step for step in made.compression] == ["distill", "int8"]
    from bertscope.v1 import classification_pb2 as classification

    def labels(name: str) -> np.ndarray[Any, Any]:
        asked = classification.ClassifyRequest(model=name, inputs=[common.TextInput(text=text) for text in SENTENCES])
        found = school.classification.Classify(asked, timeout=CALL_SECONDS).results
        return np.array([[one.probability for one in sorted(text.labels, key=lambda one: one.label)] for text in found])

    teacher, student = labels("models/sorter"), labels("models/student")
    divergence = (teacher * np.log(teacher / student)).sum(axis=1).mean()
    assert divergence == pytest.approx(report.student.divergence, rel=0.02, abs=1e-5)


@pytest.mark.parametrize("objective", [{"soft": 1}, {"hard": 1}, {"states": 1, "state_loss": 2}, {"attention": 1}])
def test_each_part_of_the_loss_alone_brings_the_student_nearer(school: Host, tmp_path: Path, objective: dict[str, Any]) -> None:
    weights: dict[str, Any] = {"soft": 0, "hard": 0, "states": 0, "attention": 0} | objective
    asked = request(tmp_path / "student", LAYERS, objective=Objective(**weights))
    events = school.distillation.DistillModel(asked, timeout=granted(100))
    seen = [one.progress.loss for one in events if one.progress.loss]
    assert np.mean(seen[-5:]) < np.mean(seen[:5])


@pytest.mark.slow
@pytest.mark.parametrize("trained", [False, True])
def test_embeddings_are_trained_when_asked_for(
    school: Host, checkpoints: dict[str, Path], tmp_path: Path, trained: bool
) -> None:
    distil(school, tmp_path / "student", LAYERS, train_embeddings=trained, epochs=1)
    (name, before), *_ = (
        (name, values)
        for name, values in load_file(checkpoints["bert"] / "model.safetensors").items()
        if name.endswith("word_embeddings.weight")
    )
    assert torch.equal(load_file(tmp_path / "student" / "model.safetensors")[name], before) is not trained


def test_zeros_stay_zero(school: Host, tmp_path: Path) -> None:
    sparse = Step(magnitude=compression.MagnitudePruning(share=0.5))
    distil(school, tmp_path / "student", sparse, epochs=1)
    weights = load_file(tmp_path / "student" / "model.safetensors")
    matrix = next(values for name, values in weights.items() if name.endswith("query.weight"))
    assert (matrix == 0).float().mean() == pytest.approx(0.5, abs=0.01)


def test_a_training_that_was_cut_off_ends_as_if_it_was_not(
    school: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit: what it goes on from is all that decides what comes out."""
    monkeypatch.setattr(running, "SAVE_SECONDS", 0.0)
    whole, _ = distil(school, tmp_path / "whole", LAYERS)
    calls = school.distillation.DistillModel(request(tmp_path / "cut", LAYERS, model_id="other"))
    for one in calls:
        if one.progress.done > 20:
            break
    calls.cancel()
    wait_until(lambda: free(school), "the cancelled training ends")
    assert (tmp_path / "cut.training").is_dir()
    with refused(FAILED) as failures:
        distil(school, tmp_path / "cut", LAYERS, model_id="other", seed=4)
    assert failures[0].info.reason == "TRAINING_UNREADABLE"
    again, _ = distil(school, tmp_path / "cut", LAYERS, model_id="other")
    assert again.resumed and not whole.resumed
    assert again.student == whole.student
    assert again.untrained == whole.untrained
    for name, values in load_file(tmp_path / "whole" / "model.safetensors").items():
        assert torch.equal(values, load_file(tmp_path / "cut" / "model.safetensors")[name])


def test_a_broken_file_is_named(school: Host, tmp_path: Path) -> None:
    folder = tmp_path / "student.training"
    folder.mkdir()
    (folder / "training.safetensors").write_bytes(b"no tensors")
    with refused(FAILED) as failures:
        distil(school, tmp_path / "student", LAYERS)
    assert failures[0].info.reason == "TRAINING_UNREADABLE"
    assert str(folder) in failures[0].message and "delete it" in failures[0].message


def test_a_large_training_is_refused(loop: LoopThread, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    with launched(loop, model=[f"bert={checkpoints['bert']}"], probe_memory_bytes=1000) as host, refused(INVALID) as failures:
        distil(host, tmp_path / "student", LAYERS)
    assert failures[0].info.reason == "MEMORY_TOO_SMALL"


def test_a_killed_write_leaves_the_last_file(tmp_path: Path) -> None:
    """The new file takes the old one's place at once, or not at all."""
    saved = SavedTraining.beside(tmp_path / "student", {"seed": 1})
    saved.write(running.Position(epoch=1, losses=[2.0]), {"a": torch.ones(2)})
    (saved.folder / "training.safetensors.unfinished").write_bytes(b"half")
    position, tensors = saved.read() or (None, None)
    assert position == running.Position(epoch=1, losses=[2.0])
    assert tensors is not None and torch.equal(tensors["a"], torch.ones(2))
    saved.remove()
    assert saved.read() is None
