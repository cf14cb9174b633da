"""Declares the calls that divide scores: `attribute_words`, `find_neurons`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol, SupportsIndex

from bertscope.questions.attribution.inputs import Places, SectionPace, asked_sections, asked_whole, section_work, with_sections
from bertscope.questions.attribution.neurons import NeuronAttribution, NeuronAttributions, read_neurons, with_site
from bertscope.questions.attribution.words import Assembly, WordAttribution, WordAttributions, read_sections
from bertscope.questions.representations.codes import SparseCodes
from bertscope.rpc.uniform import each
from bertscope.values.choices import AbsentText, AttributionMethod, AttributionUnit
from bertscope.values.messages import Numbers
from bertscope.values.positions import Positions
from bertscope.values.score_targets import ScoreTarget
from bertscope.values.validation import TextOrPair


class AttributionCalls(Protocol):
    """The methods of `AsyncClient` that divide scores among words or neurons."""

    @each(
        asked_sections,
        read_sections,
        WordAttributions,
        build=with_sections,
        work=section_work,
        pace=SectionPace,
        sections=Assembly,
        order="model method absent unit spans exact_units pairs seed first_pair steps max_steps tolerance interactions",
    )
    def attribute_words(
        self,
        texts: TextOrPair | Iterable[TextOrPair],
        target: ScoreTarget | Iterable[ScoreTarget],
        *,
        method: AttributionMethod = "shapley",
        absent: AbsentText | None = None,
        unit: AttributionUnit = "word",
        spans: Places | Iterable[Places] | None = None,
        seed: SupportsIndex = 0,
        first_pair: SupportsIndex = 0,
    ) -> WordAttribution:
        """Tells which words made a score: divides v(all words) - v(no word) among them.

        `target` is the number v: `Answer("are", "is")` at a mask, `TextLabel`, `WordLabel`, `PassageAnswer`, `TextValue`,
        `SimilarTo` or `NextSentence`. `attribute_logits` tells which parts of the model made a score.

        `method` "shapley" gives Shapley values: exact up to `exact_units` words, from 2^n texts each; beyond, means over
        `pairs` of orders, which `seed` chooses, with an interval for each word from 5 pairs on. Answers about other pairs, from
        number `first_pair` on, are added by `+`.
        "occlusion" takes one word away at a time. "integrated_gradients" runs `steps`, which are tripled until the error is
        under `tolerance`, no longer falls, or `max_steps` are reached. "gradient" and "frozen" run the text once. An `absent`
        word is "mask" tokens (unless set), "deleted", or with gradients "zero" states.

        `interactions` also tells which two words act together, for exact values.

        Calls are as large as a few seconds allow; the pairs of long texts are divided among several. `timeout` holds for each.
        A rejected text is named by its index in the whole list ("inputs[70000]"). The calls begin when the first answer is
        requested. Closing the generator cancels running ones.

        Arguments:
            texts: A string, or a tuple of two for a pair; any number of them, also from a generator.
            target: The number, one for all texts or one for each.
            spans: Parts of the text that values go to, (start, end) or (start, end, segment); for several texts such a list for
                each. None means words, or pieces with `unit="piece"`.
        """

    @each(
        asked_whole,
        read_neurons,
        NeuronAttributions,
        build=with_sections,
        work=section_work,
        finish=with_site,
        rpc="AttributeWords",
        without="absent unit exact_units pairs seed first_pair interactions spans",
        order="model site layers positions top method steps max_steps tolerance",
    )
    def find_neurons(
        self,
        texts: TextOrPair | Iterable[TextOrPair],
        target: ScoreTarget | Iterable[ScoreTarget],
        *,
        site: Literal["neurons", "heads"] | SparseCodes = "neurons",
        layers: Numbers | None = None,
        positions: Positions | None = None,
        top: SupportsIndex | None = None,
        method: AttributionMethod = "integrated_gradients",
    ) -> NeuronAttribution:
        """Tells which neurons made a score: divides v(text) - v(the layer's neurons at 0) among them, one layer at a time.

        Knowledge neurons of Dai et al. 2022 (section 3.1) are those of `Answer("Paris", scale="probability")` at a mask.
        `changes` of the answer silences or amplifies its units in any other call.

        `method` "integrated_gradients" runs `steps` for each layer, which are tripled until the error is under `tolerance`, no
        longer falls, or `max_steps` are reached; "gradient" one.

        Calls are as large as a few seconds allow. `timeout` holds for each. A rejected text is named by its index in the whole
        list ("inputs[70000]"). The calls begin when the first answer is requested. Closing the generator cancels running ones.

        Arguments:
            texts: Texts, as in `attribute_words`.
            target: The number, as in `attribute_words`.
            site: "neurons", the activations of feed-forward blocks, "heads", or sparse codes, whose layer alone counts; what
                they leave unexplained stays.
            layers: Layers whose units count; None means all.
            positions: Positions whose units count, at most 128 of a text; None means the masks, or all tokens of a text without
                one.
            top: Units that come back, those of the largest absolute values; None means 20.
        """
