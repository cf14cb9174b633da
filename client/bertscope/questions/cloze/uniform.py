"""Declares the calls for cloze queries: `fill_mask`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from bertscope.questions.cloze.answers import FilledText, FilledTexts, asked_cloze, read_cloze, with_cloze_items
from bertscope.rpc.uniform import each
from bertscope.values.choices import Decoding


class ClozeCalls(Protocol):
    """The methods of `AsyncClient` that fill masks."""

    @each(
        asked_cloze,
        read_cloze,
        FilledTexts,
        build=with_cloze_items,
        order="model top_k candidates interventions reference_texts truncate decoding beam_width max_pieces "
        "candidates_per_text piece_ids logits text_pairs",
    )
    def fill_mask(
        self,
        texts: str | Iterable[str],
        *,
        decoding: Decoding | None = None,
        candidates_per_text: Iterable[Iterable[str]] | None = None,
        text_pairs: str | Iterable[str] | None = None,
    ) -> FilledText:
        """Fills the masks of texts: the likeliest pieces of the vocabulary, or given candidates.

        Texts go in calls that the server takes, a few at a time. The masks of a text are independent, or filled jointly with
        `decoding`: each with the words chosen before in place. The answers have top_k `fillings` then, likeliest first. With
        `max_pieces` they are decoded by a beam unless `decoding` says otherwise.

        With `next_sentence` each answer has the probability that the second text follows (Devlin et al. 2019, section 3.1).
        Raises Unimplemented for a model without that head ("next_sentence" in `Model.capabilities`).

        One answer for each text, in order. A rejected text is named by its index in the whole list ("texts[70000]"). Raises
        FailedPrecondition where the model is replaced by another one meanwhile.

        The calls begin when the first answer is requested. Closing the generator cancels running ones.

        Arguments:
            texts: Any number of texts, each with at least one "[MASK]" in it or in its second text.
            candidates_per_text: Words to score in place of `candidates`, a list for each text.
            text_pairs: Second texts, one for each, which the model reads after them; masks of both are filled.
        """
