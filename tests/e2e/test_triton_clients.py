"""Triton's own client against our server."""

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bertscope.inference import open_inference_pb2 as oip
from bertscope.v1 import cloze_pb2 as cloze
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from tests.support.installations import python_with
from tests.support.patience import granted
from tests.support.process import Process

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TRITONCLIENT = ["tritonclient[grpc]>=2.60"]
TEXT = "Paris is the capital of [MASK]."
IDS = [101, 3000, 2003, 1996, 3007, 1997, 103, 1012, 102]
"""The same, as bert-base-uncased's vocabulary has it, which the embedded model shares."""


@pytest.fixture(scope="module")
def found(embedded: Process) -> dict[str, Any]:
    """What tritonclient got from the embedded model."""
    command = [python_with("tritonclient", TRITONCLIENT), ROOT / "tests" / "support" / "triton_calls.py", embedded.target]
    ran = subprocess.run([*command, json.dumps(IDS)], capture_output=True, text=True, timeout=granted(100), check=False)
    assert ran.returncode == 0, ran.stderr
    reply: dict[str, Any] = json.loads(ran.stdout)
    return reply


@pytest.fixture(scope="module")
def predictions(embedded: Process) -> Any:
    """What FillMask gives."""
    (result,) = embedded.cloze.FillMask(cloze.FillMaskRequest(texts=[TEXT]), timeout=granted(20)).results
    return result.masks[0].predictions


def test_the_documented_example_runs(embedded: Process) -> None:
    page = ROOT / "docs" / "open-inference.md"
    (example,) = re.findall(r"^```text\n(import numpy.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    command = [python_with("tritonclient", TRITONCLIENT), "-c", example.replace("127.0.0.1:50051", embedded.target)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=granted(60), check=False)
    assert ran.returncode == 0, ran.stderr
    for shown in re.findall(r"b'\w+'", example):
        assert shown in ran.stdout


def test_answers_are_those_of_fill_mask(found: dict[str, Any], predictions: Any) -> None:
    tokens, shares = [one.token for one in predictions], [one.probability for one in predictions]
    assert found["by_text"][0] == [tokens, tokens]
    np.testing.assert_allclose(found["by_text"][1], [shares, shares], rtol=1e-4)
    assert found["by_ids"][0] == [tokens[:3]]
    np.testing.assert_allclose(found["by_ids"][1], [shares[:3]], rtol=1e-4)
    for one in found["at_once"]:
        assert one[0] == [tokens]
        np.testing.assert_allclose(one[1], [shares], rtol=1e-4)


def test_errors_arrive_with_what_to_do(found: dict[str, Any]) -> None:
    unknown, maskless, nothing, version, late, statistics = found["errors"]
    assert unknown[0] == "StatusCode.NOT_FOUND"
    assert "models/nobody" in unknown[1]
    assert maskless == ["StatusCode.INVALID_ARGUMENT", "text[0] has 0 masks, and tokens are given for one; write [MASK] once"]
    assert nothing[0] == "StatusCode.UNIMPLEMENTED"
    assert "last_hidden_state" in nothing[1]
    assert version[0] == "StatusCode.NOT_FOUND"
    # The second, if the server sees first that there is no time.
    assert late[0] in {"StatusCode.DEADLINE_EXCEEDED", "StatusCode.RESOURCE_EXHAUSTED"}
    assert statistics[0] == "StatusCode.UNIMPLEMENTED"


def messages_of(file: FileDescriptorProto) -> dict[str, DescriptorProto]:
    """All messages of a file, by name, those inside others too."""

    def every(prefix: str, messages: Any) -> Iterator[tuple[str, DescriptorProto]]:
        for message in messages:
            name = f"{prefix}.{message.name}"
            yield name, message
            yield from every(name, message.nested_type)

    return dict(every(f".{file.package}", file.message_type))


def form(field: FieldDescriptorProto) -> tuple[object, ...]:
    """All that decides how a field looks on the wire, and what it is called in JSON and in code."""
    return field.name, field.number, field.type, field.label, field.type_name, field.HasField("oneof_index"), field.json_name


def test_our_messages_are_tritons(found: dict[str, Any]) -> None:
    files = [FileDescriptorProto.FromString(base64.b64decode(file)) for file in found["files"]]
    theirs = {name: message for file in files for name, message in messages_of(file).items()}
    ours = FileDescriptorProto()
    oip.DESCRIPTOR.CopyToProto(ours)
    compared = messages_of(ours)
    assert len(compared) > 20
    for name, message in compared.items():
        fields = {form(field) for field in message.field}
        known = {form(field) for field in theirs[name].field}
        # Of Triton's own configuration we have a part; the protocol's messages are whole.
        assert (
            fields <= known
            if name in {".inference.ModelConfig", ".inference.ModelInput", ".inference.ModelOutput"}
            else (fields == known)
        ), name
    (service,) = ours.service
    their_methods = {method.name: method for file in files for one in file.service for method in one.method}
    assert service.name == "GRPCInferenceService"
    for method in service.method:
        theirs_too = their_methods[method.name]
        assert (method.input_type, method.output_type) == (theirs_too.input_type, theirs_too.output_type)
    numbers = {value.name: value.number for file in files for enum in file.enum_type for value in enum.value}
    assert all(numbers[value.name] == value.number for value in ours.enum_type[0].value)
