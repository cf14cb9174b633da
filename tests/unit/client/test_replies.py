"""Replies become results, whatever a newer or a broken server sends."""

import dataclasses
import datetime
import math

import bertscope
import numpy as np
import pytest
from bertscope.questions.labels.classification import read_classified_texts
from bertscope.rpc import channel, health
from bertscope.v1 import classification_pb2, common_pb2, model_pb2
from bertscope.values.documents import document_of as document
from bertscope.values.messages import token
from bertscope.values.models import Models, read_load_event, read_model
from bertscope_workbench.command.views.models import print_models

from tests.support.broken_replies import refusals
from tests.support.stored_outputs import outcome, printed


def test_health_messages_are_those_of_grpc_health():
    health_pb2 = pytest.importorskip("grpc_health.v1.health_pb2")
    for service in ("", "bertscope.v1.ClozeService"):
        theirs = health_pb2.HealthCheckRequest(service=service)
        assert health.request(service).SerializeToString() == theirs.SerializeToString()
    for name, number in health_pb2.HealthCheckResponse.ServingStatus.items():
        reply = health_pb2.HealthCheckResponse(status=number).SerializeToString()
        assert health.status(health.Int32Value.FromString(reply)) == name
    assert health.status(health.Int32Value(value=9)) == "9"


def test_options_of_the_caller_win():
    options = dict(channel.channel_options([("grpc.max_receive_message_length", 5), ("x", "y")], bertscope.Retries()))
    assert options["grpc.max_receive_message_length"] == 5
    assert options["x"] == "y"
    assert "bertscope-python/" in options["grpc.primary_user_agent"]


def test_models(stored) -> None:
    made = datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC)
    times = [
        model_pb2.RuntimeTimes(runtime=common_pb2.RUNTIME_TORCH, text_seconds=0.02, batch_seconds=0.1),
        model_pb2.RuntimeTimes(runtime=common_pb2.RUNTIME_ONNX, text_seconds=0.01, batch_seconds=0.09),
    ]
    choice = model_pb2.RuntimeChoice(
        preferred=common_pb2.RUNTIME_ONNX, threshold=1.1, times=times, speedup=0.7, low=0.6, high=0.9, rounds=8, remembered=True
    )
    choice.measured_time.FromDatetime(made)
    sizes = {"layers": 6, "heads": 12, "hidden_size": 384, "vocabulary_size": 30522, "max_tokens": 512}
    sizes |= {"parameters": 22_000_000, "weight_bytes": 88_000_000}
    message = model_pb2.Model(
        name="models/m",
        source="org/m",
        architecture="bert",
        runtime=common_pb2.RUNTIME_TORCH,
        device="cuda:0",
        precision=common_pb2.PRECISION_BFLOAT16,
        capabilities=[model_pb2.CAPABILITY_ATTENTION, 99],
        state=model_pb2.Model.STATE_READY,
        weights_digest="sha256:0",
        mask_token="[MASK]",
        labels=["negative", "positive"],
        pruned_heads=[common_pb2.LayerHeads(layer=3, heads=[1, 4]), common_pb2.LayerHeads(layer=0, heads=[2])],
        runtime_choice=choice,
        **sizes,
    )
    message.ready_time.FromDatetime(made)
    model = read_model(message)
    assert {field.name for field in dataclasses.fields(model)} == set(message.DESCRIPTOR.fields_by_name)
    states = model_pb2.Model.STATE_LOADING, model_pb2.Model.STATE_UNLOADING
    starting = [read_model(model_pb2.Model(name="models/m", source="s", state=state)) for state in states]
    reason = model_pb2.RuntimeChoice(reason="it drops tokens")
    stored(
        model=model,
        choice=str(model.runtime_choice),
        nothing_to_choose=str(read_model(model_pb2.Model(runtime_choice=reason)).runtime_choice),
        document=document(model),
        starting=starting[0],
        printed=printed(print_models, [model, *starting], width=160),
        shown=repr(Models([model])),
    )


def test_labels_are_read_with_the_text_they_are_about(stored) -> None:
    labels = [
        classification_pb2.LabelPrediction(label="good", index=1, probability=0.9, logit=2.5),
        classification_pb2.LabelPrediction(label="bad", probability=0.1),
    ]
    given = [common_pb2.TextInput(text="a", text_pair=""), common_pb2.TextInput(text="b")]
    result = classification_pb2.ClassifiedText(labels=labels, tokens=4, truncated_tokens=1)
    reply = classification_pb2.ClassifyResponse(results=[result, classification_pb2.ClassifiedText(labels=labels[:1])])
    found = read_classified_texts(given, reply)
    stored(
        texts=found,
        label=found[0].label,
        broken=refusals(lambda messages: [one.label for one in read_classified_texts(given, *messages)], reply),
    )


def test_tokens_and_events(stored) -> None:
    progress = model_pb2.LoadProgress(stage=model_pb2.LoadProgress.STAGE_WARMING_UP, done_bytes=1, total_bytes=2)
    stored(
        special=token(common_pb2.Token(text="[CLS]", special=True)),
        first=token(common_pb2.Token(text="a", id=0, word=0, start=1, end=2, segment=1, pieces=["a"])),
        progress=read_load_event(model_pb2.LoadModelResponse(progress=progress)),
        nothing=read_load_event(model_pb2.LoadModelResponse()),
        serving=[
            bertscope.Health(status, services).serving
            for status in ("SERVING", "NOT_SERVING")
            for services in ({}, {"a": "SERVICE_UNKNOWN"}, {"a": "NOT_SERVING"}, {"a": "SERVING"})
        ],
    )


def test_deadlines(stored) -> None:
    given = [(None, 60.0), (5.0, 60.0), (None, None), (math.inf, 60.0), (None, math.inf), (1e10, 60.0), (10**20, 60.0)]
    given += [(-1.0, 60.0), (0, 60.0), (np.float32(2), None), (math.nan, None), ("5", None), (True, None), ([1], None)]
    stored(
        deadlines=[outcome(lambda each=each: channel.deadline(*each)) for each in given],
        of_a_client=lambda: bertscope.Client(timeout=math.nan),
    )
