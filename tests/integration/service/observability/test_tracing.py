"""Traces: a span for each call with its parts, below the caller's own, at a real collector. Never a word of what users sent."""

import asyncio
import logging
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any

import bertscope
import grpc
import pytest
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2
from bertscope_service.errors import FailedPrecondition
from bertscope_service.observability import otlp, timeline
from bertscope_service.observability.otlp import OtlpTracer
from bertscope_service.observability.timeline import Wait
from bertscope_service.observability.tracer import make_tracer
from opentelemetry.exporter.otlp.proto.grpc.exporter import OTLPExporterMixin
from opentelemetry.propagate import inject
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk import trace as sdk
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_span_id, format_trace_id

from tests.support.collector import Collector, collecting, values
from tests.support.harness import CALL_SECONDS, Host, LoopThread, code_of, launched
from tests.support.patience import wait_until

SECRET = "xylophone"
QUESTION = cloze.FillMaskRequest(texts=[f"The {SECRET} is [MASK]."])
PARENT = "00f067aa0ba902b7"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as running:
        yield running


@pytest.fixture(scope="module")
def traced(loop: LoopThread, checkpoints: dict[str, Any], collector: Collector) -> Iterator[Host]:
    """A server that traces what its callers trace, and half of the other calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
        patch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        settings = {"trace_endpoint": collector.endpoint, "trace_ratio": 0.5}
        with launched(loop, model=[f"bert={checkpoints['bert']}"], **settings) as running:
            yield running


def context(*, sampled: bool = True) -> tuple[str, tuple[tuple[str, str], ...]]:
    """A new trace id, and the metadata of a caller in that trace."""
    trace_id = secrets.token_hex(16)
    return trace_id, (("traceparent", f"00-{trace_id}-{PARENT}-0{int(sampled)}"),)


def below(spans: list[Span], parent: Span) -> list[Span]:
    return [span for span in spans if span.parent_span_id == parent.span_id]


def lies_within(inner: Span, outer: Span) -> bool:
    return bool(
        outer.start_time_unix_nano <= inner.start_time_unix_nano <= inner.end_time_unix_nano <= outer.end_time_unix_nano
    )


def test_a_call_is_a_span_below_its_callers_with_queue_batch_forward_and_reduce(traced: Host, collector: Collector) -> None:
    """And spans say what the conventions ask for."""
    trace_id, metadata = context()
    before = time.time_ns()
    traced.cloze.FillMask(QUESTION, metadata=(*metadata, ("x-request-id", "order-7")), timeout=CALL_SECONDS)
    root, parts = collector.call(trace_id)
    assert (root.name, root.parent_span_id.hex()) == ("bertscope.v1.ClozeService/FillMask", PARENT)
    assert before <= root.start_time_unix_nano <= root.end_time_unix_nano <= time.time_ns()
    queue, batch = sorted(below(parts, root), key=lambda span: span.start_time_unix_nano)
    assert (queue.name, batch.name) == ("queue", "batch")
    forward, reduce = below(parts, batch)
    assert (forward.name, reduce.name) == ("forward", "reduce")
    assert len(parts) == 4
    assert queue.end_time_unix_nano <= batch.start_time_unix_nano == forward.start_time_unix_nano
    assert forward.end_time_unix_nano == reduce.start_time_unix_nano > forward.start_time_unix_nano
    assert all(lies_within(inner, outer) for outer in (root, batch) for inner in below(parts, outer))
    assert values(root.attributes) == {
        "rpc.system.name": "grpc",
        "rpc.method": "bertscope.v1.ClozeService/FillMask",
        "rpc.response.status_code": "OK",
        "bertscope.request_id": "order-7",
        "bertscope.batches": 1,
    }
    assert values(batch.attributes) == {
        "bertscope.device": "cpu",
        "bertscope.batch.rows": 1,
        "bertscope.batch.own_rows": 1,
        "bertscope.batch.tokens": values(batch.attributes)["bertscope.batch.tokens"],
        "bertscope.batch.padding_tokens": 0,
    }
    resource = collector.resources[-1]
    assert resource["telemetry.sdk.language"] == "python"
    assert resource["service.name"] == "bertscope"
    assert resource["service.version"] == bertscope.__version__
    assert resource["deployment.environment.name"] == "test"
    assert resource["service.instance.id"]


def test_a_call_that_its_caller_does_not_trace_is_not_traced(traced: Host, collector: Collector) -> None:
    trace_id, metadata = context(sampled=False)
    traced.cloze.FillMask(QUESTION, metadata=metadata, timeout=CALL_SECONDS)
    # What is traced after it has come: it would have come, too.
    other, metadata = context()
    traced.cloze.FillMask(QUESTION, metadata=metadata, timeout=CALL_SECONDS)
    collector.call(other)
    assert collector.spans(trace_id) == []


@pytest.mark.parametrize("hostile", ["", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", SECRET])
def test_a_broken_context_is_ignored(traced: Host, hostile: str) -> None:
    metadata = (("traceparent", hostile), ("tracestate", hostile))
    assert traced.cloze.FillMask(QUESTION, metadata=metadata, timeout=CALL_SECONDS).results


def test_the_ratio_decides_about_calls_whose_callers_do_not(collector: Collector, loop: LoopThread) -> None:
    tracers = [OtlpTracer(collector.endpoint, ratio, "1") for ratio in (0.0, 1.0)]
    never, always = tracers
    trace_id, metadata = context()
    call = copy_context()  # as each call of a server has one
    by_caller = call.run(never.begin, "/a.B/C", metadata, "id")
    by_chance = call.run(always.begin, "/a.B/C", (), "id")
    assert by_caller is not None and by_chance is not None
    assert by_caller.trace_id == trace_id != by_chance.trace_id
    assert call.run(never.begin, "/a.B/C", (), "id") is None
    by_caller.end("OK")
    by_chance.end("OK")
    # What was not sent yet, for it is sent every few seconds, is sent at the end.
    for tracer in tracers:
        loop.run(tracer.close())
    assert [len(collector.spans(span.trace_id)) for span in (by_caller, by_chance)] == [1, 1]


def test_only_failures_of_the_server_are_errors_and_no_span_has_a_word_of_the_users(
    traced: Host, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    bad = cloze.FillMaskRequest(texts=[SECRET], model=f"models/{SECRET}")
    trace_id, metadata = context()
    caplog.set_level(logging.INFO)
    with pytest.raises(grpc.RpcError):
        traced.cloze.FillMask(bad, metadata=metadata, timeout=CALL_SECONDS)
    root, parts = collector.call(trace_id)
    assert parts == []
    assert values(root.attributes)["rpc.response.status_code"] == values(root.attributes)["error.type"] == "NOT_FOUND"
    assert root.status.code == Status.STATUS_CODE_UNSET
    line = next(record for record in caplog.records if getattr(record, "trace_id", "") == trace_id)
    assert line.__dict__["method"] == "FillMask"

    trace_id, metadata = context()
    loaded = traced.server.registry.find("").loaded
    assert loaded is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(vars(loaded.encoder), "begin", fail)
        with pytest.raises(grpc.RpcError):
            traced.cloze.FillMask(QUESTION, metadata=metadata, timeout=CALL_SECONDS)
    broken, parts = collector.call(trace_id)
    assert broken.status.code == Status.STATUS_CODE_ERROR
    assert [span.name for span in parts] == ["queue"]
    assert SECRET not in f"{root}{broken}{parts}"


def fail(*_: Any) -> Any:
    raise RuntimeError(SECRET)


def test_the_batches_of_a_stream_are_in_its_span(traced: Host, collector: Collector) -> None:
    trace_id, metadata = context()
    inputs = [common_pb2.TextInput(text=text) for text in ("A cat.", "A dog and a cat.")]
    request = attention.ExtractAttentionRequest(inputs=inputs)
    assert list(traced.attention.ExtractAttention(request, metadata=metadata, timeout=CALL_SECONDS))
    root, parts = collector.call(trace_id)
    batches = [span for span in parts if span.name == "batch"]
    assert values(root.attributes)["bertscope.batches"] == len(batches) >= 1
    assert sum(values(batch.attributes)["bertscope.batch.own_rows"] for batch in batches) == len(inputs)
    assert all(lies_within(batch, root) for batch in batches)


def test_the_current_span_of_a_caller_is_the_parent(traced: Host, collector: Collector, loop: LoopThread) -> None:
    tracer = TracerProvider().get_tracer("test")

    async def ask() -> None:
        async with bertscope.AsyncClient(traced.target, propagate=inject) as client:
            await client.fill_mask("The [MASK] sat.")
            assert [maps async for maps in client.extract_attention(["A cat."])]

    with bertscope.Client(traced.target, propagate=inject) as client:
        calls: list[tuple[int, Callable[[], object]]] = [
            (1, lambda: client.fill_mask("The [MASK] sat.")),
            (1, lambda: list(client.extract_attention(["A cat."]))),
            (2, lambda: asyncio.run(ask())),
        ]
        for count, call in calls:
            with tracer.start_as_current_span("outside") as span:
                call()
            own = span.get_span_context()
            roots = collector.calls(format_trace_id(own.trace_id), count)
            assert {root.parent_span_id.hex() for root in roots} == {format_span_id(own.span_id)}


@pytest.mark.slow
def test_a_server_whose_collector_is_gone_answers_and_ends(
    loop: LoopThread, checkpoints: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "FLUSH_SECONDS", 0.1)
    with launched(loop, model=[f"bert={checkpoints['bert']}"], trace_endpoint="http://127.0.0.1:9") as running:
        assert running.cloze.FillMask(QUESTION, timeout=CALL_SECONDS).results
    assert "bertscope-traces" in {thread.name for thread in threading.enumerate()}, "nothing was left to send"


def test_a_call_outlasts_its_parts_also_when_the_clock_is_set_back(
    loop: LoopThread, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer = OtlpTracer(collector.endpoint, 1.0, "1")
    call = copy_context()  # as each call of a server has one
    span = call.run(tracer.begin, "/a.B/C", (), "id")
    assert span is not None
    notes = call[timeline.current]
    assert notes is not None
    now = time.perf_counter()
    notes.waited(Wait(now, now))
    an_hour_ago = time.time_ns() - 3_600_000_000_000
    monkeypatch.setattr(sdk, "time_ns", lambda: an_hour_ago)
    span.end("OK")
    monkeypatch.undo()
    loop.run(tracer.close())
    root, (queue,) = collector.call(span.trace_id)
    assert lies_within(queue, root)


def test_a_tracer_that_fails_fails_one_call_and_leaves_nothing_behind(traced: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OtlpTracer, "begin", fail)
    with pytest.raises(grpc.RpcError) as caught:
        traced.cloze.FillMask(QUESTION, timeout=CALL_SECONDS)
    assert code_of(caught.value) is grpc.StatusCode.INTERNAL
    assert SECRET not in str(caught.value)
    wait_until(lambda: not traced.metric("bertscope_requests_in_flight", method="FillMask"), "nothing is at work")


def test_a_collector_that_is_gone_is_no_warning_for_each_try(collector: Collector, loop: LoopThread) -> None:
    loop.run(OtlpTracer(collector.endpoint, 1.0, "1").close())
    exporter = logging.getLogger(OTLPExporterMixin.__module__)
    assert exporter.isEnabledFor(logging.ERROR)
    assert not exporter.isEnabledFor(logging.WARNING)


def test_tracing_without_its_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bertscope_service.observability.otlp", None)
    with pytest.raises(FailedPrecondition, match="pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-grpc"):
        make_tracer("http://127.0.0.1:4317", 1.0, "1")


def test_without_an_endpoint_nothing_is_traced(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    _, metadata = context()
    host.cloze.FillMask(QUESTION, metadata=metadata, timeout=CALL_SECONDS)
    wait_until(lambda: [record for record in caplog.records if record.name == "bertscope.requests"], "the call is logged")
    assert not any(hasattr(record, "trace_id") for record in caplog.records)
