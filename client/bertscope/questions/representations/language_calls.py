"""Calls that compare languages by their hidden states: `retrieve_sentences`, `align_words`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from typing import SupportsIndex

from bertscope.errors import BertscopeError, InvalidArgument, invalid_argument
from bertscope.questions.representations.alignment import (
    METHODS,
    AlignedWords,
    AlignmentMethod,
    WordAlignment,
    links_of,
    marked_pairs,
)
from bertscope.questions.representations.retrieval import (
    POOLINGS,
    RetrievedSentences,
    SentencePooling,
    Vectors,
    parallel_sentences,
    retrieved,
    sentence_vector,
)
from bertscope.questions.representations.state_calls import AsyncStatesCalls
from bertscope.questions.representations.states import HiddenStates
from bertscope.rpc.splitting import OnRejected, located
from bertscope.rpc.tasks import computed
from bertscope.values import validation
from bertscope.values.messages import Numbers
from bertscope.values.models import Model


class AsyncLanguageCalls(AsyncStatesCalls):
    """The methods of `AsyncClient` that compare languages."""

    async def retrieve_sentences(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        pooling: SentencePooling = "mean",
        centred: bool = True,
        truncate: bool = False,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> RetrievedSentences:
        """Finds for each sentence its nearest neighbour in the other list, by layer, in both directions (Pires et al. 2019).

        `targets[k]` is the translation of `sources[k]`. A sentence's vector is the "mean" of its pieces' states without special
        tokens, or the "first" state, [CLS]. Distances are Euclidean; `centred` subtracts each list's mean vector first.
        `layers` are all unless set: 0 is the embeddings, k the output of layer k - 1. The client keeps one vector of each
        sentence, layers * hidden_size * 4 bytes. Both lists are streamed, one after the other, each within one `timeout`.

        A text that the server rejects (too long, empty), or that has special tokens only, is an error of `sources[k]` or
        `targets[k]`, k its pair, unless `on_rejected` takes k and the error: then the pair is left out.
        Raises InvalidArgument for lists of unequal length and for fewer than two pairs.
        """
        one, other = parallel_sentences(sources, targets)
        of_text = validation.choice("pooling", pooling, POOLINGS) == "first"
        centre = validation.flag("centred", centred)
        places: Sequence[int] = range(len(one))
        sides: list[dict[int, Vectors]] = []
        truncated: list[set[int]] = []
        first: list[HiddenStates] = []
        for name, texts in (("sources", one), ("targets", other)):
            vectors: dict[int, Vectors] = {}
            cut: set[int] = set()
            asked = places

            def leave_out(index: int, error: InvalidArgument, name: str = name, asked: Sequence[int] = asked) -> None:
                located(error, asked, name)
                if on_rejected is not None:
                    on_rejected(asked[index], error)

            states = self.extract_hidden_states(
                [texts[place] for place in asked],
                model=model,
                layers=layers,
                unit="text" if of_text else "piece",
                pooling="first" if of_text else None,
                truncate=truncate,
                on_rejected=None if on_rejected is None else leave_out,
                timeout=timeout,
            )
            try:
                async with aclosing(states):
                    async for text in states:
                        place = asked[text.input_index]
                        vector = sentence_vector(text)
                        if vector is None:
                            empty = invalid_argument(f"{name}[{place}]", "has special tokens only: leave its pair out")
                            if on_rejected is None:
                                raise empty
                            on_rejected(place, empty)
                            continue
                        vectors[place] = vector
                        if text.truncated_tokens:
                            cut.add(place)
                        if not first:
                            first.append(text)
            except BertscopeError as error:
                located(error, asked, name)
                raise
            places = sorted(vectors)
            sides.append(vectors)
            truncated.append(cut)
            if len(places) < 2:
                raise invalid_argument(name, f"{len(places)} pairs are left: retrieval needs two or more")
        kept = places
        return await computed(
            lambda: retrieved(
                kept,
                first,
                ([sides[0][place] for place in kept], [sides[1][place] for place in kept]),
                centred=centre,
                truncated_texts=sum(len(cut.intersection(kept)) for cut in truncated),
            )
        )

    async def align_words(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        layer: SupportsIndex,
        model: str | Model | None = None,
        method: AlignmentMethod = "argmax",
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> AlignedWords:
        """Links the words of each sentence and its translation by the cosine of their states (Jalili Sabet et al. 2020).

        Words are what blanks separate; a word's state is the mean of its pieces' at `layer`: 0 is the embeddings, k the output
        of layer k - 1. "argmax" links two words that are each other's nearest; "itermax" does so again among those that are
        left, and so finds more links, some of several words to one. The client holds the states of one pair at a time.

        A pair of which the server rejects a text (too long) is an error that names `pairs[k]`, unless `on_rejected` takes k and
        the error: then it is left out. Raises InvalidArgument for a sentence without a word.
        """
        texts = marked_pairs(pairs)
        chosen, number = validation.choice("method", method, METHODS), validation.uint32("layer", layer)
        places = [index // 2 for index in range(len(texts))]
        left_out: set[int] = set()

        def leave_out(index: int, error: InvalidArgument) -> None:
            if places[index] not in left_out and on_rejected is not None:
                left_out.add(places[index])
                located(error, places, "pairs")
                on_rejected(places[index], error)

        states = self.extract_hidden_states(
            texts,
            model=model,
            layers=number,
            unit="span",
            on_rejected=None if on_rejected is None else leave_out,
            timeout=timeout,
        )
        found: list[WordAlignment] = []
        source: HiddenStates | None = None
        try:
            async with aclosing(states):
                async for text in states:
                    place = places[text.input_index]
                    if text.input_index % 2 == 0:
                        source = text
                    elif source is not None and source.input_index == text.input_index - 1:
                        one, other = (tuple(token.text for token in side.tokens) for side in (source, text))
                        links = links_of(source.states[0], text.states[0], chosen)
                        found.append(WordAlignment(place, one, other, links, number, chosen, text.provenance))
        except BertscopeError as error:
            located(error, places, "pairs")
            raise
        return AlignedWords(found)
