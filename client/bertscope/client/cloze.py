# Generated from bertscope/questions/cloze/calls.py. Do not edit: change that file, and run `make client`.
# Generated from uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls for cloze queries: `fill_mask`."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial
from typing import SupportsIndex

from bertscope.client.many_texts import ManyTexts
from bertscope.client.streams import whole
from bertscope.questions.cloze.answers import FilledText, FilledTexts, read_cloze
from bertscope.questions.cloze.candidates import asked_cloze, with_cloze_items
from bertscope.rpc.splitting import OnRejected
from bertscope.v1 import cloze_pb2
from bertscope.values.all_interventions import Interventions
from bertscope.values.choices import Decoding
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
        """Fills the masks of texts: the likeliest pieces of the vocabulary (top_k, 5 unless set), or given candidates.

        Each text has at least one "[MASK]". Any number of texts, also from a generator: they go in calls that the server takes,
        a few at a time. Up to 1000 candidates; top_k and candidates exclude each other. `truncate` cuts texts that the model
        cannot read whole; without it they are an error.

        Several masks of a text are independent, or filled jointly with `decoding` "left_to_right", "confidence_first" or "beam"
        (which keeps `beam_width` partial fillings, 5 unless set): each mask with the words chosen before in place. The answers
        have top_k `fillings` then, likeliest first. With `max_pieces` a mask stands for 1 to so many vocabulary entries (10 at
        most), decoded by a beam unless `decoding` says otherwise, and fillings are ordered by their mean_log_probability.

        In place of `candidates` there may be `candidates_per_text`, a list for each text, or `piece_ids`, indices of vocabulary
        entries. `logits` gives the scores before the softmax, too.

        `text_pairs` are second texts, one for each, which the model reads after them; masks of both are filled. With
        `next_sentence` each answer has the probability that the second text follows (Devlin et al. 2019, section 3.1), and no
        text needs a mask. Raises Unimplemented for a model without that head ("next_sentence" in `Model.capabilities`).

        One answer for each text, in order. `timeout` holds for each call.
        A rejected text is named by its index in the whole list ("texts[70000]"). Raises FailedPrecondition where the
        model is replaced by another one meanwhile.

        The calls begin when the first answer is requested. Closing the generator cancels running ones. `on_rejected` takes
        the index and the error of each text that the server rejects, which is then left out; without it that ends the
        stream.
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
