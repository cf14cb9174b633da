# Generated from bertscope/questions/representations/context_calls.py. Do not edit: change that file, and run `make client`.
"""Calls that search a corpus for the words at which units are largest: `find_contexts`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from functools import partial
from hashlib import sha256
from itertools import chain
from os import PathLike
from typing import SupportsIndex

from bertscope.client.many_texts import OnTexts, every_text_rejected
from bertscope.client.representations import RepresentationCalls
from bertscope.errors import BertscopeError, InvalidReply, invalid_argument
from bertscope.questions.representations.context_arrays import ContextReader
from bertscope.questions.representations.context_requests import (
    AskedText,
    ContextText,
    NearestTo,
    Units,
    asked_contexts,
    context_message,
    with_directions,
    with_units,
)
from bertscope.questions.representations.contexts import SUMS, Contexts
from bertscope.questions.representations.kept_contexts import begun, unread
from bertscope.questions.representations.states import StatesInput
from bertscope.rpc.splitting import Limit, OnRejected, Part, Parts
from bertscope.rpc.threads import computed, sleep
from bertscope.v1 import representation_contexts_pb2 as contexts_pb2
from bertscope.values import validation
from bertscope.values.changes import SiteDirection, directions_of
from bertscope.values.interventions import Interventions
from bertscope.values.messages import provenance, with_items
from bertscope.values.models import Model
from bertscope.values.requests import request_of
from bertscope.values.results import TextsProgress

CALL_TEXTS = 4000
"""Texts in a call, which streams its progress: a reply takes as much as the units do, whatever the texts are."""
KEPT_TEXTS = 500
"""The same where what is found is kept: what a run that is killed loses."""
BEST, SAMPLE = 10, 100


class ContextCalls(RepresentationCalls):
    """The methods of `Client` that search a corpus."""

    def find_contexts(
        self,
        texts: ContextText | Iterable[ContextText],
        *,
        heads: Units | None = None,
        neurons: Units | None = None,
        directions: SiteDirection | Iterable[SiteDirection] = (),
        nearest: NearestTo | Iterable[NearestTo] = (),
        relation: str | None = None,
        backward: bool = False,
        places: SupportsIndex | None = None,
        sample: SupportsIndex | None = None,
        seed: SupportsIndex = 0,
        pieces: bool = False,
        words: str | Iterable[str] = (),
        first_index: SupportsIndex = 0,
        model: str | Model | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        start_from: Contexts | str | PathLike[str] | None = None,
        on_found: Callable[[Contexts], object] | None = None,
        on_progress: OnTexts | None = None,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> Contexts:
        """Searches a corpus for the words at which heads, neurons or directions are largest, and draws words by chance to
        compare them with.

        `texts` are any number of texts, pairs, or `RelationText` with the words of a treebank. `heads` and `neurons` are
        {layer: numbers}, None for all of a layer, or "all". The value of a head at a word is its largest weight to another
        word that is no special token, the partner; with `relation`, the weight from the first word of each pair of it to
        the second, the partner, or `backward` from the second to the first. The value of a neuron is its activation, of a
        `SiteDirection` a product or a cosine; `nearest` are words in texts whose states others are compared with, by
        cosine. A word has the mean of its pieces' vectors; with `pieces`, pieces are places. `words` restricts places to
        these words, letter case ignored.

        Each unit has the `places` (10, at most 100) with its largest values, and its values at `sample` (100, at most 1,000)
        words that `seed` draws, the same ones for all units: `tenths` of them say what it does elsewhere. Counts, means and
        histograms are over all places. States and maps stay on the server.

        Texts go in calls of 4,000. A corpus that is divided among servers gets `first_index`, the number of the first text of
        each part, and `Contexts.merge`. An error gets what earlier calls found, as `partial`.

        `on_found` is called with what was found so far after each call, then of 500 texts; `save_contexts` keeps it, and
        `start_from`, such contexts or their file, goes on after them. Raises InvalidArgument unless that was asked the same
        about the first of the texts. `on_progress` is called with a `TextsProgress` as texts run; `on_rejected` is as in
        `describe_geometry`; `timeout` is for each call.
        """
        request = request_of(
            contexts_pb2.FindContextsRequest,
            model=model,
            best=None if places is None else validation.positive("places", places),
            sample=sample,
            seed=seed,
            pieces=pieces,
            words=words,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        request = with_units(request, heads, neurons, relation, backward=backward)
        asked = asked_contexts(texts, first_index, relation)
        given, near = directions_of(directions), validation.instances("nearest", nearest, NearestTo)
        digest = _digest(request, given, near, relation, backward)
        whole = computed(lambda: begun(start_from, digest, int(first_index)))
        if heads is None and neurons is None and not given and not near:
            raise invalid_argument("heads", "and neurons, directions and nearest are all left out; name at least one unit")
        for index, one in enumerate(near):
            name = f"nearest {index} {one.word}" if index else f"nearest {one.word}"
            given.append(self._toward(one, name, model, interventions, reference_texts, timeout))
        sets = with_directions(request, directions_of(given))
        search = _Search(request, relation, backward, sets, [(one.name, int(one.layer)) for one in given], digest)
        limit, items, done = Limit(), asked.items, 0
        limit.texts = CALL_TEXTS if on_found is None else KEPT_TEXTS
        if whole is not None:
            rest = unread(items, whole)
            if (first := next(rest, None)) is None:
                return whole
            items, done = chain([first], rest), first.number - whole._kept()[1]["ranges"][0][0]
        parts = Parts(items, asked.total, limit, large=True, on_rejected=on_rejected, numbers=range(done, 1 << 60))
        try:
            with closing(self._search_parts(search, parts, asked.total, done, on_progress, timeout)) as found:
                for part in found:
                    before = whole
                    whole = part if before is None else computed(lambda: Contexts.merge([before, part]))  # noqa: B023
                    if on_found is not None:
                        on_found(whole)
        except BertscopeError as error:
            error.partial = whole
            raise
        if whole is None:
            raise every_text_rejected()
        return whole

    def _toward(
        self,
        asked: NearestTo,
        name: str,
        model: str | Model | None,
        interventions: Interventions,
        reference_texts: str | Iterable[str],
        timeout: float | None,
    ) -> SiteDirection:
        """Returns the direction of the state of a word."""
        streamed = self.extract_hidden_states(
            StatesInput(asked.text, [asked.span]),
            model=model,
            layers=asked.layer,
            unit="span",
            interventions=interventions,
            reference_texts=reference_texts,
            timeout=timeout,
        )
        with closing(streamed) as states:
            for one in states:
                return SiteDirection(name, asked.layer, one.states[0, 0], cosine=True)
        raise InvalidReply("the server sent no state")

    def _search_parts(
        self,
        search: _Search,
        parts: Parts[AskedText],
        total: int | None,
        done: int,
        on_progress: OnTexts | None,
        timeout: float | None,
    ) -> Generator[Contexts, None, None]:
        """Yields what each call found; `done` texts were read before."""
        while (part := parts.take()) is not None:
            reader = search.reader(part)
            try:
                with closing(self._stream(search.about(part.items), contexts_pb2.FindContextsResponse, timeout)) as messages:
                    for message in messages:
                        run = reader.add(message)
                        if run is not None and on_progress is not None:
                            on_progress(TextsProgress(done + run, total))
                found = computed(lambda: search.read(reader, part))  # noqa: B023 - called at once
                parts.check_weights(part.start, found.provenance.weights_digest)
            except BertscopeError as error:
                rest = parts.without_rejected(part, error)
                again, seconds = (rest, 0.0) if rest is not None else parts.refused(part, error, self._retries.attempts)
                parts.put_back(again)
                sleep(seconds)
                continue
            done += len(part.items)
            yield found
        parts.end()


def _digest(
    request: contexts_pb2.FindContextsRequest,
    directions: Sequence[SiteDirection],
    near: Sequence[NearestTo],
    relation: str | None,
    backward: bool,
) -> str:
    """Returns the same for searches that are asked the same, of any model. The states of `near` words are not compared: they
    differ in their last digits from call to call."""
    same = type(request)()
    same.CopyFrom(request)
    same.ClearField("model")
    with_directions(same, directions)
    return sha256(f"{relation}:{backward}:{near!r}:".encode() + same.SerializeToString(deterministic=True)).hexdigest()


class _Search:
    """One search, whose calls differ in their texts. names: name and layer of each direction."""

    def __init__(
        self,
        request: contexts_pb2.FindContextsRequest,
        relation: str | None,
        backward: bool,
        sets: Sequence[Sequence[int]],
        names: Sequence[tuple[str, int]],
        asked: str,
    ) -> None:
        self._request, self._sets, self._names, self._asked = request, sets, names, asked
        self._message = partial(context_message, relation=relation, backward=backward, pieces=request.pieces)
        self._best, self._sample = request.best or BEST, request.sample or SAMPLE

    def about(self, texts: Sequence[AskedText]) -> contexts_pb2.FindContextsRequest:
        """Returns the request about some texts."""
        return with_items(self._request, "texts", map(self._message, texts))

    def reader(self, part: Part[AskedText]) -> ContextReader:
        kinds, request = contexts_pb2.ContextUnits, self._request
        asked = {(int(kinds.KIND_HEAD), each.layer): each.heads for each in request.heads.heads}
        asked |= {(int(kinds.KIND_ACTIVATION), each.layer): each.units for each in request.activations.layers}
        return ContextReader({text.number: text.plain for text in part.items}, self._sets, self._best, asked)

    def read(self, reader: ContextReader, part: Part[AskedText]) -> Contexts:
        """Returns what a call about some texts found, when its stream has ended."""
        found, summary = reader.end(), reader.summary
        if summary is None:
            raise InvalidReply("the server ended the search without its result")
        sums = {name: getattr(summary, name) for name in SUMS}
        return Contexts(
            found,
            names=self._names,
            best=self._best,
            sample=self._sample,
            provenance=provenance(summary.provenance),
            asked=self._asked,
            ranges=[(part.items[0].number, part.items[-1].number + 1)] if part.items else (),
            **sums,
        )
