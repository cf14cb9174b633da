"""Models with finite weights, which can be loaded, whose states overflow: no question answers with such numbers."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
from bertscope.v1 import attribution_pb2 as attribution
from bertscope.v1 import cloze_facts_pb2 as facts
from bertscope.v1 import cloze_pb2
from bertscope_service.contract import METHODS, Work

from tests.support.edited_files import edit_tensors
from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, refused
from tests.support.sweeps import MEAN, ZERO, Request, cloze_prompts, divergence, head_set, labelled, minimal_pairs
from tools.protos.samples import SAID, good

SAMPLES: dict[str, Any] = dict(good(Path("/nowhere")))
ABOUT, EXPLAINED = SAMPLES["QueryFacts"].relations[0], SAMPLES["AttributeWords"].inputs[0]
IT = facts.Fact(subject="it", objects=["the"])
TYPED = facts.FactRelation(name="typed", templates=ABOUT.templates, candidates=["the", "cat"])
NO_SPANS = attribution.AttributedText(text=SAID, target=EXPLAINED.target)

SHOWN = {"ExtractAttention", "ModelInfer"}
"""They show what there is."""

ASKED = [method for method in METHODS.values() if method.work in (Work.INTERACTIVE, Work.BULK) and method.name not in SHOWN]
FILL = cloze_pb2.FillMaskRequest(texts=[SAID], decoding=cloze_pb2.MASK_DECODING_BEAM)
OTHERS: dict[str, tuple[str, Any]] = {
    "decoding": ("FillMask", FILL),
    "facts of candidates": ("QueryFacts", facts.QueryFactsRequest(relations=[TYPED], facts=[IT], scoring=2)),
    "facts that are decoded": ("QueryFacts", facts.QueryFactsRequest(relations=[ABOUT], facts=[IT], scoring=3)),
    "gradients": ("AttributeWords", attribution.AttributeWordsRequest(inputs=[EXPLAINED], method=3)),
    "neurons": ("AttributeWords", attribution.AttributeWordsRequest(inputs=[NO_SPANS], site={"site": "SITE_ACTIVATIONS"})),
    "cloze": ("SweepHeads", Request(mode=ZERO, objective=cloze_prompts())),
    "minimal pairs": ("SweepHeads", Request(mode=ZERO, objective=minimal_pairs())),
    "divergence": ("SweepHeads", Request(mode=ZERO, objective=divergence())),
    "labels": ("SweepHeads", Request(mode=ZERO, objective=labelled(), model="models/sorter")),
    "divergence of labels": ("SweepHeads", Request(mode=ZERO, objective=divergence(), model="models/sorter")),
    "curve": ("SweepHeads", Request(mode=ZERO, objective=divergence(), greedy={})),
    "means": ("SweepHeads", Request(mode=MEAN, objective=divergence(), reference_texts=["The cat sat."])),
}


def overflow(weights: dict[str, torch.Tensor]) -> None:
    for key, values in weights.items():
        if "layer.2.attention.output.LayerNorm.weight" in key:
            values.fill_(torch.finfo(values.dtype).max)


@pytest.fixture(scope="module")
def sick(
    loop: LoopThread, checkpoints: dict[str, Path], sorters: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Host]:
    """Hosts broken models under the names that `good` has."""
    root, models = tmp_path_factory.mktemp("broken"), []
    folders = {"bert": checkpoints["bert"], "headless": checkpoints["headless"]} | {
        name: sorters[name] for name in ("sorter", "tagger", "rater", "answerer")
    }
    for name, folder in folders.items():
        copy = Path(shutil.copytree(folder, root / name))
        edit_tensors(copy / "model.safetensors", overflow)
        models.append(f"{name}={copy}")
    with launched(loop, model=models) as running:
        yield running


CASES = {method.name: (method.name, None) for method in ASKED} | OTHERS


@pytest.mark.parametrize("case", CASES)
def test_no_question_answers_with_what_is_no_number(sick: Host, checkpoints: dict[str, Path], case: str) -> None:
    name, given = CASES[case]
    request: Any = given or good(checkpoints["bert"])[name]
    if name == "ApplyProbe":
        request.probes[0].layer = 4
    if name == "TrainCodes":
        request.layer = 4
    if name == "TrainEraser":
        request.layers[:] = [4]
    method = next(method for method in METHODS.values() if method.name == name)
    with refused(grpc.StatusCode.FAILED_PRECONDITION) as failures:
        sick.ask(method, request.SerializeToString())
    assert failures[0].info.reason in ("SCORES_NOT_FINITE", "STATES_NOT_FINITE")


def test_the_layer_that_is_broken_can_not_be_swept_around(sick: Host) -> None:
    """Zero times what is no number is none either: no effect is ever sent for such a model."""
    received = []
    sets = [head_set(((layer, ()),)) for layer in range(4)]
    with pytest.raises(grpc.RpcError):
        received.extend(sick.ablation.SweepHeads(Request(mode=ZERO, objective=divergence(), sets=sets), timeout=CALL_SECONDS))
    assert not any(response.HasField("effect") for response in received)
