"""Asks all claims of the checkpoints of one model, each loaded for as long as it is asked."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from bertscope import Client, Model
from bertscope.errors import invalid_argument
from bertscope.values.models import short_name

from bertscope_workbench.papers.claim import Claim
from bertscope_workbench.papers.kept_results import KeptResults
from bertscope_workbench.papers.run import ClaimsRun, ModelResults, run_claims

NUMBER = re.compile(r"\d+")


def run_film(
    client: Client,
    claims: Sequence[Claim],
    revisions: Sequence[str],
    *,
    model: str | Model | None = None,
    kept: KeptResults | None = None,
    **options: Any,
) -> ClaimsRun:
    """Asks every claim of every checkpoint. A revision is a branch, tag or commit of the model's hub id, or a folder on the
    server, with a "/" in it; its last number is the training step. `options` are those of `run_claims`.

    The server must allow loads. Raises InvalidArgument for revisions without a number, or not in the order of training, and as
    `load_model` and `run_claims`.
    """
    found, steps = client.get_model(model), [step_of(each) for each in revisions]
    if sorted(set(steps)) != steps:
        raise invalid_argument("revisions", "must be in the order of training, by the last number of each, none twice")
    kept = kept or KeptResults(None)
    results: list[ModelResults] = []
    run = ClaimsRun(tuple(claims), ())
    for revision, step in zip(revisions, steps, strict=True):
        with _loaded(client, found, revision, step) as checkpoint:
            run = run_claims(client, claims, models=[checkpoint], steps=[step], kept=kept, **options)
            results += run.models
    return replace(run, models=tuple(results))


def step_of(revision: str) -> float:
    """Returns the last number of a revision's name: 2000 of "checkpoint-2000". Raises InvalidArgument if there is none."""
    numbers = NUMBER.findall(revision.rstrip("/").rpartition("/")[2])
    if not numbers:
        raise invalid_argument("revisions", f"{revision!r} has no number in its name, which would be the training step")
    return float(numbers[-1])


@contextmanager
def _loaded(client: Client, model: Model, revision: str, step: float) -> Iterator[Model]:
    name = f"{short_name(model)}-{step:g}"
    source = revision if "/" in revision else model.source
    left = [each for each in client.list_models() if short_name(each) == name and each.source == source]
    if left:  # A run that was killed could not unload it.
        (loaded,) = left
    elif "/" in revision:
        loaded = client.load_model(name, source=source)
    else:
        loaded = client.load_model(name, source=source, revision=revision)
    try:
        yield loaded
    finally:
        client.unload_model(loaded)
