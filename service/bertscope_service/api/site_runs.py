"""Runs the texts that changes at sites take vectors from."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import numpy as np

from bertscope_service.analyses.observers.site_vectors import SiteSumsObserver, SiteVectorsObserver
from bertscope_service.analyses.site_changes import PlannedChange, SourceRun, places_of
from bertscope_service.api.provenance import site_norms
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.sites import Change
from bertscope_service.engine.rows import Row

if TYPE_CHECKING:
    from bertscope_service.api.answer import Call


async def site_changes(call: Call, planned: Sequence[PlannedChange], references: Sequence[TokenSequence]) -> tuple[Change, ...]:
    """Returns changes with all their vectors. Adds the norms that the provenance of the reply tells."""
    places = places_of(planned)
    sums = [np.zeros(1)] * len(places)
    if places:
        observer, encoder = SiteSumsObserver(places), call.model.encoder
        lengths = [len(sequence) for sequence in references]
        async with aclosing(call.bulk().results(lengths, lambda row: Row(encoder, references[row], observer))) as results:
            async for found in results:
                sums = [total + one for total, one in zip(sums, (each.astype(np.float64) for each in found), strict=True)]
        sums = [total / sum(lengths) for total in sums]
    means = dict(zip(places, sums, strict=True))
    norms = (float(means[one.place][-1]) for one in planned if one.strength is not None)
    site_norms.set((*site_norms.get(), *norms))
    changes = []
    for one in planned:
        if one.source is not None:
            changes.append(await _from_source(call, one, one.source))
        elif one.needs_references:
            mean = means[one.place]
            changes.append(one.of_references(mean[:-1].astype(np.float32), float(mean[-1])))
        else:
            changes.append(one.change)
    return tuple(changes)


async def _from_source(call: Call, planned: PlannedChange, source: SourceRun) -> Change:
    """Runs the text of a source. Returns the change with its vectors."""
    with call.backend.registry.use(source.model) as loaded:
        row = Row(loaded.encoder, source.sequence, SiteVectorsObserver((source.place,)), source.edits)
        ((vectors,),) = await call.run([row])
    return planned.with_vectors(vectors[source.chosen()])
