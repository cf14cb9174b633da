"""Attributions of logits: the request, the reply, its table, its output, its figure, and replies that break the contract."""

import bertscope_workbench as workbench
import numpy as np
from bertscope.questions.representations.attribution import asked_attributions, read_attributions
from bertscope.v1 import representation_lens_pb2 as lens
from bertscope.values.vectors import tensor
from bertscope_workbench.command.views.attribution import attribution_document, print_attribution

from tests.support.broken_replies import refusals
from tests.support.stored_outputs import outcome, printed

GIVEN = lens.AttributedInput(text="A $[MASK] cat.", answer="big", other_answer="old")


def reply(*, ablated=True):
    response = lens.AttributeLogitsResponse()
    response.provenance.model = "models/m"
    response.results.add(
        token_index=2,
        answer=lens.VocabularyEntry(token="big", id=3),
        other_answer=lens.VocabularyEntry(token="old", id=4),
        difference=10.0,
        heads=tensor(np.float32([[1, -2, 0], [3, 0, 0.5]])),
        feed_forward=[4, -1],
        attention_biases=[0.5, 0.5],
        normalisation_shifts=[1, 0],
        embeddings=2,
        head_biases=0.5,
        ablated=tensor(np.float32([[2, -4, 0], [6, 0, 1]])) if ablated else None,
        tokens=6,
        truncated_tokens=1,
    )
    return response


def test_attributions(stored) -> None:
    (found,) = many = read_attributions([GIVEN], reply())
    (alone,) = read_attributions([GIVEN], reply(ablated=False))
    message = reply()
    message.results[0].ablated.CopyFrom(tensor(np.zeros((2, 3), np.float32)))
    stored(
        attribution=found,
        correlations=[found.correlation(), read_attributions([GIVEN], message)[0].correlation(), lambda: alone.correlation()],
        frame=many.to_pandas(),
        without_ablation=alone.to_pandas()["ablated"].isna().all(),
        shown=repr(many),
        printed=printed(print_attribution, found),
        document=attribution_document(found),
        figure=workbench.plot_attribution(found),
        dark=workbench.plot_attribution(found, dark=True),
        broken=refusals(lambda messages: read_attributions([GIVEN], *messages), reply()),
    )


def test_each_text_has_its_answers(stored) -> None:
    asked = asked_attributions(iter(["a [MASK]", "b [MASK]"]), [("is", "are"), ("was", "were")], 1)
    answers = [("is", "are")], [("is", "are")] * 3, "is", [("is",)] * 2, [("is", 3)] * 2
    stored(
        same=list(asked_attributions(["a [MASK]", ("b [MASK]", "c")], ("is", "are"), None).items),
        own=[asked.total, *asked.items],
        refused=[outcome(lambda given=given: asked_attributions(["a", "b"], given, None)) for given in answers],
    )
