# Generated from bertscope/questions/cloze/calls.py. Do not edit: change that file, and run `make client`.
# Generated from uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls for cloze queries: `fill_mask`."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial
from typing import SupportsIndex

from bertscope.client.many_texts import ManyTexts
from bertscope.client.streams import whole
from bertscope.questions.cloze.answers import FilledText, FilledTexts, asked_cloze, read_cloze, with_cloze_items
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import cloze_pb2
from bertscope.values.choices import Decoding
from bertscope.values.interventions import Interventions
from bertscope.values.messages import Numbers
from bertscope.values.models import Model
from bertscope.values.requests import request_of


class ClozeCalls(ManyTexts):
    """The methods of `Client` that fill masks."""

    def fill_mask_stream(
        self,
        texts: str | Iterable[str],
        *,
        model: str | Model | None = None,
        top_k: SupportsIndex | None = None,
        candidates: str | Iterable[str] | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        decoding: Decoding | None = None,
        beam_width: SupportsIndex | None = None,
        max_pieces: SupportsIndex | None = None,
        candidates_per_text: Iterable[Iterable[str]] | None = None,
        piece_ids: Numbers | None = None,
        logits: bool = False,
        text_pairs: str | Iterable[str] | None = None,
        next_sentence: bool = False,
        on_rejected: OnRejected | None = None,
        timeout: float | None = None,
    ) -> Generator[FilledText, None, None]:
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
            model: The model's name or a `Model`; None means the server's default model.
            top_k: How many predictions to give for each mask, or how many fillings of each text with a joint decoding: 1 to
                `vocabulary_size`; None means 5. Must be None with candidates, `candidates_per_text` and `piece_ids`.
            candidates: Words to score instead of the whole vocabulary, at most 1000 (unless the server is set otherwise) of at
                most 1000 characters, none empty, none twice. A word of several pieces is scored with as many masks as it has
                pieces. At most one of candidates, `candidates_per_text` and `piece_ids` is set.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            truncate: True: cut texts that are longer than the model reads, and say so in the reply. False: such a text is an
                error. A text whose every mask would be cut away is an error in either case. With candidates of several pieces a
                text is cut further, so that the longest of them fits in.
            decoding: How several masks of a text are filled: "independent", "left_to_right", "confidence_first" or "beam".
                Candidates are scored at each mask alone.
            beam_width: Number of partial fillings that "beam" keeps, 1 to 100; None means 5. Must be None with any other.
            max_pieces: The most vocabulary entries that a mask may stand for, 1 to 10; None means 1. Each number of entries is
                tried at each mask, with as many masks in its place, filled jointly; the `top_k` fillings of all these are given
                by `mean_log_probability`. Must be None with candidates and with "independent". With truncate, a text is cut
                further, so that they fit in.
            candidates_per_text: Words to score in place of `candidates`, a list for each text.
            piece_ids: Vocabulary indices to score in place of candidates, at most 1000 (unless the server is set otherwise),
                each 0 to `vocabulary_size` - 1, none twice.
            logits: True: predictions also have their logits. Must be False with a joint decoding.
            text_pairs: Second texts, one for each, which the model reads after them; masks of both are filled.
            next_sentence: True: also gives the probability that the second text of each pair follows the first. Each pair runs
                once more for it, as it is, with its masks. Requires `text_pairs`, and a model with "next_sentence"; one without
                a masked-LM head will do if there are no masks.
            on_rejected: Called with the index and the error of each item that the server rejects (too long, empty), which is
                left out; without it the first error is raised.
            timeout: Seconds for each call to the server; None means the client's.
        """
        request = request_of(
            cloze_pb2.FillMaskRequest,
            model=model,
            top_k=top_k,
            candidates=candidates,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
            decoding=decoding,
            beam_width=beam_width,
            max_pieces=max_pieces,
            piece_ids=piece_ids,
            logits=logits,
            next_sentence=next_sentence,
        )
        return self._answers(
            asked_cloze(texts, text_pairs, candidates_per_text),
            partial(with_cloze_items, request),
            cloze_pb2.FillMaskResponse,
            read_cloze,
            timeout,
            large=bool(request.reference_texts),
            on_rejected=on_rejected,
        )

    fill_mask = whole(fill_mask_stream, FilledTexts)
