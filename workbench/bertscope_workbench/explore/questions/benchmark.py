"""The question of the Benchmark view: how fast and how alike are loaded models?"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial

from bertscope import AsyncClient

from bertscope_workbench.explore.body import Body
from bertscope_workbench.explore.plain import plain
from bertscope_workbench.explore.streams import Event, with_progress


def benchmark(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Measures models in turn: yields `{"progress": {"stage", "done"}}` any number of times, then `{"report": ...}`, the
    fields of `BenchmarkReport`.

    Fields: models (the first is the baseline), lengths in tokens, min_seconds and max_seconds, as_loaded, agreement_texts.
    """
    models, lengths = body.texts("models"), body.wholes("lengths")
    min_seconds, max_seconds = body.number("min_seconds", 1.0), body.number("max_seconds", 600.0)
    as_loaded, texts = body.flag("as_loaded"), body.texts("agreement_texts")
    body.done()
    call = partial(
        client.benchmark_models,
        models,
        lengths=lengths or None,
        min_seconds=min_seconds,
        max_seconds=max_seconds,
        as_loaded=as_loaded,
        agreement_texts=texts or None,
    )
    return with_progress(call, lambda report: {"report": plain(report)})
