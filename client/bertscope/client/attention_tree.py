# Generated from bertscope/questions/attention/tree_calls.py. Do not edit: change that file, and run `make client`.
"""Calls for dependency trees: `score_trees`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from functools import partial

from bertscope.client.attention import AttentionCalls
from bertscope.client.many_texts import OnTexts, every_text_rejected
from bertscope.questions.attention.maps import extract_attention_request
from bertscope.questions.attention.marked_texts import RelationText
from bertscope.questions.attention.trees import TreeScores, checked_texts, score_tree
from bertscope.rpc.splitting import OnRejected
from bertscope.rpc.threads import computed
from bertscope.values.all_interventions import Interventions
from bertscope.values.messages import Numbers, asked_inputs
from bertscope.values.models import Model
from bertscope.values.results import TextsProgress


class AttentionTreeCalls(AttentionCalls):
    """The methods of `Client` that read trees off attention."""

    def score_trees(
        self,
        texts: RelationText | Iterable[RelationText],
        *,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        heads: Numbers | None = None,
        by_head: bool = False,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        on_progress: OnTexts | None = None,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> TreeScores:
        """Scores the dependency trees that maps make, beside trees that branch to one side.

        The tree of a map is the one over a text's words, from its real root, in which words attend most to their governors
        (Raganato and Tiedemann 2018). The pairs of each text are its dependencies, from the governor to the word
        (`read_conllu`); a text whose pairs are no tree is counted as skipped.

        A layer has one tree, of the mean over its `heads`; with `by_head`, each head has one. The maps travel to the client,
        which computes the trees: some 30 ms for one of 20 words. Needs the extra "trees". `on_progress` and `on_rejected` are
        as in `score_relations`.
        """
        asked = checked_texts(texts)
        request = extract_attention_request(
            model=model,
            layers=layers,
            heads=heads,
            words=False,
            quantity="weights",
            dtype="float32",
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=False,
        )
        parts: list[TreeScores] = []
        done = 0
        streamed = self._extract_attention(request, asked_inputs([text.text for text in asked]), timeout, on_rejected)
        with closing(streamed) as found:
            for maps in found:
                part = computed(partial(score_tree, asked[maps.input_index], maps, by_head=by_head))
                parts = [TreeScores.merge([*parts, part])]
                done += 1
                if on_progress is not None:
                    on_progress(TextsProgress(done, len(asked)))
        if not parts:
            raise every_text_rejected()
        return TreeScores.merge(parts)
