"""Checks, plans, runs and renders FindContexts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from functools import partial

import numpy as np
from bertscope.v1 import representation_contexts_pb2 as contexts_pb2
from numpy.typing import NDArray

from bertscope_service.analyses.context_places import ContextText, Corpus, PlaceQuery, Sample
from bertscope_service.analyses.contexts import ContextsPlan, SetSums
from bertscope_service.analyses.observers.context_units import UnitKind
from bertscope_service.analyses.observers.contexts import PLACE_BITS
from bertscope_service.api.answer import Backend, Call, Context
from bertscope_service.api.attention_relations import read_relation_text
from bertscope_service.api.checks import check_text, read_text
from bertscope_service.api.context_units import read_units
from bertscope_service.api.enums import numbers
from bertscope_service.api.field_checks import FIND_CONTEXTS_BEST, FIND_CONTEXTS_SAMPLE
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.progress import progress_of
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.tensor_chunks import CHUNK_BYTES
from bertscope_service.engine.rows import Row
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel

Request = contexts_pb2.FindContextsRequest
Response = contexts_pb2.FindContextsResponse
KINDS = numbers(UnitKind, contexts_pb2.ContextUnits.Kind, "KIND_")
WORDS_AT_A_TIME = 50_000
AHEAD_BATCHES = 2
"""Results of so many full batches may wait. All heads and neurons of a small model give some ten kilobytes a token."""
Report = Callable[[int], None]


async def find_contexts(request: Request, backend: Backend, context: Context) -> AsyncGenerator[Response, None]:
    """Answers FindContexts. Raises InvalidArgument, Unsupported, Overloaded, FailedPrecondition."""
    with backend.registry.use(request.model) as model:
        call = Call.of(backend, model, context)
        plan, conditions = await call.read(request, plan_contexts)
        backend.reply_memory.hold(call.client, plan.bytes)

        async def work(report: Report) -> None:
            edits = await call.edits(conditions)

            def row(number: int) -> Row:
                sequence, observer = plan.rows[number]
                return Row(model.encoder, sequence, observer, edits)

            async with aclosing(
                call.bulk(ahead=AHEAD_BATCHES).results([len(sequence) for sequence, _ in plan.rows], row)
            ) as results:
                done = 0
                async for found in results:
                    if found is not None:
                        await call.compute(partial(plan.add, found))
                        del found
                    done += 1
                    report(done)
            await call.compute(plan.end)

        # Closed explicitly: the work of a client that is gone must not go on until garbage collection.
        async with aclosing(progress_of(work, lambda _: None)) as reports:
            async for done in reports:
                progress = contexts_pb2.FindContextsProgress(done=done, total=len(plan.rows))
                yield Response(progress=progress)
        rendering = await call.compute(partial(Rendering, plan))
        yield Response(summary=await call.compute(partial(rendering.summary, model)))
        for words in rendering.word_parts():
            yield Response(words=await call.compute(partial(rendering.words, words)))
        for sums, units in rendering.parts():
            yield Response(units=await call.compute(partial(rendering.units, sums, units)))


def plan_contexts(request: Request, model: LoadedModel, limits: RequestLimits) -> ContextsPlan:
    """Plans the search. Raises InvalidArgument, and Unsupported for a model that does not show what is asked for."""
    sets = read_units(request, model)
    pairs = any(one.pairs for one in sets)
    corpus = Corpus(
        PlaceQuery(
            _texts(request, limits),
            request.pieces,
            frozenset(word.strip().casefold() for word in request.words),
            pairs,
            request.sample or FIND_CONTEXTS_SAMPLE,
            request.seed,
            request.truncate,
        ),
        model.tokenizer,
    )
    return ContextsPlan(sets, corpus, request.best or FIND_CONTEXTS_BEST)


def _texts(request: Request, limits: RequestLimits) -> list[ContextText]:
    """Returns the texts, checked."""
    found, seen = list[ContextText](), set[int]()
    for index, entry in enumerate(request.texts):
        field = f"texts[{index}]"
        for name, written in zip(("text", "text_pair"), read_text(entry.text.input), strict=True):
            if written is not None:
                check_text(written, f"{field}.text.input.{name}", limits)
        if entry.id in seen:
            message = f"{field}.id is {entry.id}, as that of another text; give each text its number in the corpus"
            raise InvalidArgument(f"{field}.id", message, "DUPLICATE")
        if request.pieces and (entry.text.words or entry.text.pairs):
            message = f"{field} has words or pairs, and places are pieces; leave these out, or pieces"
            raise InvalidArgument(f"{field}.text.words", message, "WORDS_WITH_PIECES")
        seen.add(entry.id)
        found.append(ContextText(entry.id, read_relation_text(entry.text, f"{field}.text", 1)))
    return found


class Rendering:
    """Renders what a search found. Words are numbered in the order of the corpus."""

    def __init__(self, plan: ContextsPlan) -> None:
        self._plan, self._corpus = plan, plan.corpus
        self._samples = [plan.corpus.words, *([plan.corpus.pairs] if any(one.set.pairs for one in plan.sums) else ())]
        named = [one for sums in plan.sums for one in (sums.places, sums.partners, sums.drawn_partners)]
        named += [one for sample in self._samples for one in (sample.places, sample.partners)]
        self._words = np.unique(np.concatenate([one.ravel() for one in named]))

    def summary(self, model: LoadedModel) -> contexts_pb2.ContextsSummary:
        corpus = self._corpus
        return contexts_pb2.ContextsSummary(
            texts=len(corpus.ids),
            tokens=corpus.tokens,
            truncated_texts=corpus.truncated,
            skipped_pairs=corpus.skipped_pairs,
            places=map(self._places, self._samples),
            words=len(self._words),
            provenance=render_provenance(model),
        )

    def _places(self, sample: Sample) -> contexts_pb2.ContextPlaces:
        partners = sample is self._corpus.pairs
        return contexts_pb2.ContextPlaces(
            count=sample.count,
            words=self._numbers(sample.places),
            partners=self._numbers(sample.partners) if partners else (),
            keys=sample.keys.tolist(),
        )

    def word_parts(self) -> Iterator[slice]:
        """Yields all words, in parts."""
        yield from (slice(begin, begin + WORDS_AT_A_TIME) for begin in range(0, len(self._words), WORDS_AT_A_TIME))

    def words(self, part: slice) -> contexts_pb2.ContextWords:
        """Renders some words."""
        ranks, words = self._words[part] >> PLACE_BITS, self._words[part] & ((1 << PLACE_BITS) - 1)
        spans = [self._corpus.spans[rank][word] for rank, word in zip(ranks.tolist(), words.tolist(), strict=True)]
        starts, ends, segments = np.array(spans).T.tolist()
        return contexts_pb2.ContextWords(texts=self._corpus.ids[ranks].tolist(), starts=starts, ends=ends, segments=segments)

    def parts(self) -> Iterator[tuple[SetSums, slice]]:
        """Yields the sets, each in parts of about CHUNK_BYTES."""
        for sums in self._plan.sums:
            each = SetSums.bytes(sums.set, sums.best, len(sums.sample.keys)) // max(1, len(sums.set))
            at_a_time = max(1, CHUNK_BYTES // each)
            for begin in range(0, len(sums.set), at_a_time):
                yield sums, slice(begin, begin + at_a_time)

    def units(self, sums: SetSums, part: slice) -> contexts_pb2.ContextUnits:
        """Renders some units of a set."""
        return contexts_pb2.ContextUnits(
            kind=KINDS[sums.set.kind],
            layer=sums.set.number,
            units=sums.set.units[part].tolist(),
            places=self._samples.index(sums.sample),
            sums=sums.sums[part].tolist(),
            squares=sums.squares[part].tolist(),
            edges=sums.set.bins.edges.tolist(),
            histograms=sums.histogram[part].ravel().tolist(),
            best_values=sums.values[part].ravel().tolist(),
            best_words=self._numbers(sums.places[part]),
            best_partners=self._numbers(sums.partners[part]),
            sample_values=sums.drawn[part].ravel().tolist(),
            sample_partners=self._numbers(sums.drawn_partners[part]),
        )

    def _numbers(self, places: NDArray[np.int64]) -> list[int]:
        return list(np.searchsorted(self._words, places.ravel()).tolist())
