"""The headers of a caller's trace go with each call, beside its token."""

from contextvars import ContextVar, copy_context

from bertscope.rpc.propagation import propagating

TRACE: ContextVar[str] = ContextVar("trace")


def inject(headers: dict[str, str]) -> None:
    if trace := TRACE.get(""):
        headers["traceparent"] = trace


def token() -> tuple[tuple[str, str], ...]:
    return (("authorization", "Bearer x"),)


def test_the_context_is_that_of_the_moment_of_the_call() -> None:
    metadata = propagating(token, inject)
    assert metadata() == token()
    for trace in ("a", "b"):
        reset = TRACE.set(trace)
        assert metadata() == (*token(), ("traceparent", trace))
        TRACE.reset(reset)


def test_without_a_token_only_the_context_goes() -> None:
    metadata = propagating(lambda: None, inject)
    assert metadata() == ()
    call = copy_context()
    call.run(TRACE.set, "a")
    assert call.run(metadata) == (("traceparent", "a"),)
