"""Calls for the states of single words: `nearest_neighbours`, `explainable_variance`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from functools import partial
from typing import SupportsIndex

from bertscope.questions.representations.neighbours import Found, Neighbourhoods, Query
from bertscope.questions.representations.state_calls import AsyncStatesCalls
from bertscope.questions.representations.variances import ExplainableVariance, Samples
from bertscope.rpc.async_many_texts import OnTexts
from bertscope.rpc.splitting import OnRejected
from bertscope.rpc.tasks import computed
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions
from bertscope.values.messages import Numbers
from bertscope.values.models import Model
from bertscope.values.results import TextsProgress
from bertscope.values.validation import TextOrPair


class AsyncWordStatesCalls(AsyncStatesCalls):
    """The methods of `AsyncClient` that compare the states of single words."""

    async def nearest_neighbours(
        self,
        inputs: TextOrPair | Iterable[TextOrPair],
        words: str | Iterable[str],
        *,
        k: SupportsIndex = 5,
        occurrences: SupportsIndex = 5,
        other_words: bool = False,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_progress: OnTexts | None = None,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> Neighbourhoods:
        """Finds the `k` words of the texts whose states have the largest cosine with each of the first `occurrences` of `words`
        (100 words at most, letter case ignored), in each layer.

        A word's state is the mean of its pieces'. Other occurrences of the same word count, unless only `other_words` are
        wanted. The states travel to the client: those of texts that may hold a word twice, first to find it. Besides the
        texts, memory is for the occurrences, their neighbours and one text. A word that no text has is an error.
        `timeout` is for each of the two passes; `on_progress` and `on_rejected` are as in `describe_geometry`.
        """
        query = Query.checked(words, k, occurrences, other_words=other_words)
        texts = validation.texts_or_pairs("inputs", inputs)
        extract = partial(
            self.extract_hidden_states,
            model=model,
            layers=layers,
            unit="word",
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
            timeout=timeout,
        )
        found = Found(query)
        likely = [index for index, text in enumerate(texts) if query.may_hold(text)]
        if not likely:
            return found.search().result()  # The error of a word that no text has.
        # A rejected text is told about in the second pass, by its own index.
        streamed = extract([texts[index] for index in likely], on_rejected=lambda index, error: None)
        async with aclosing(streamed) as first:
            async for states in first:
                if found.add(likely[states.input_index], states):
                    break
        search = found.search()
        done = 0
        async with aclosing(extract(texts, on_rejected=on_rejected)) as second:
            async for states in second:
                await computed(partial(search.add, states))
                done += 1
                if on_progress is not None:
                    on_progress(TextsProgress(done, len(texts)))
        return await computed(search.result)

    async def explainable_variance(
        self,
        inputs: TextOrPair | Iterable[TextOrPair],
        words: str | Iterable[str],
        *,
        seed: SupportsIndex = 0,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        on_progress: OnTexts | None = None,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> ExplainableVariance:
        """Computes the maximum explainable variance of words (Ethayarajh 2019, section 3.3): the share of the first singular
        direction of a word's states in different texts, and that of random words to take off it.

        `words` are 1,000 at most, letter case ignored. The states travel to the client, which keeps up to 100 occurrences of
        each word, and 1,000 of any: where there are more, a random sample, the same for the same `seed`. `timeout` is for
        the whole call; `on_progress` and `on_rejected` are as in `describe_geometry`.
        """
        samples = Samples(words, seed)
        texts = validation.texts_or_pairs("inputs", inputs)
        done = 0
        streamed = self.extract_hidden_states(
            texts,
            model=model,
            layers=layers,
            unit="word",
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
            on_rejected=on_rejected,
            timeout=timeout,
        )
        async with aclosing(streamed) as found:
            async for states in found:
                await computed(partial(samples.add, states))
                done += 1
                if on_progress is not None:
                    on_progress(TextsProgress(done, len(texts)))
        return await computed(samples.result)
