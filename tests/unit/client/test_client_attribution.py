"""Attributions of logits: the request, the reply, its table, its output, its figure, and replies that break the contract."""

import io
import math

import bertscope
import numpy as np
import pytest
from bertscope.questions.representations.attribution import asked_attributions, attribute_logits_request, read_attributions
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_lens_pb2 as lens
from bertscope_workbench.command.views.attribution import attribution_document, print_attribution
from matplotlib.colors import to_hex
from rich.console import Console

GIVEN = lens.AttributedInput(text="A $[MASK] cat.", answer="big", other_answer="old")


def matrix(values):
    array = np.array(values, dtype="<f4")
    return common_pb2.Tensor(dtype=common_pb2.DATA_TYPE_FLOAT32, shape=array.shape, data=array.tobytes())


def reply(*, ablated=True):
    response = lens.AttributeLogitsResponse()
    response.provenance.model = "models/m"
    response.results.add(
        token_index=2,
        answer=lens.VocabularyEntry(token="big", id=3),
        other_answer=lens.VocabularyEntry(token="old", id=4),
        difference=10.0,
        heads=matrix([[1, -2, 0], [3, 0, 0.5]]),
        feed_forward=[4, -1],
        attention_biases=[0.5, 0.5],
        normalisation_shifts=[1, 0],
        embeddings=2,
        head_biases=0.5,
        ablated=matrix([[2, -4, 0], [6, 0, 1]]) if ablated else None,
        tokens=6,
        truncated_tokens=1,
    )
    return response


def test_a_reply_becomes_a_result_and_a_table():
    (found,) = many = read_attributions([GIVEN], reply())
    assert (found.text, found.answer, found.other_answer, found.token_index) == ("A $[MASK] cat.", "big", "old", 2)
    assert found.total == pytest.approx(10.0)
    assert found.biases == pytest.approx(2.5)
    assert found.correlation() == pytest.approx(1.0)
    table = many.to_pandas()
    assert table["added"].sum() == pytest.approx(found.total)
    row = table[(table["part"] == "head") & (table["layer"] == 1) & (table["head"] == 2)]
    assert (row["added"].item(), row["ablated"].item()) == (0.5, 1.0)
    assert table["part"].value_counts().to_dict() == {
        "head": 6,
        "feed_forward": 2,
        "attention_bias": 2,
        "normalisation_shift": 2,
        "embeddings": 1,
        "head_biases": 1,
    }
    (alone,) = read_attributions([GIVEN], reply(ablated=False))
    assert alone.ablated is None
    assert alone.to_pandas()["ablated"].isna().all()
    with pytest.raises(bertscope.InvalidArgument, match="ablate"):
        alone.correlation()
    message = reply()
    message.results[0].ablated.CopyFrom(matrix(np.zeros((2, 3))))
    assert math.isnan(read_attributions([GIVEN], message)[0].correlation())
    assert len(repr(many)) < 400


@pytest.mark.parametrize(
    "change",
    [
        lambda message: message.results.add(),
        lambda message: message.results[0].feed_forward.append(1),
        lambda message: message.results[0].ablated.CopyFrom(matrix([[1.0]])),
        lambda message: message.results[0].heads.ClearField("data"),
    ],
)
def test_a_reply_that_breaks_the_contract_is_invalid(change):
    message = reply()
    change(message)
    with pytest.raises(bertscope.InvalidReply):
        read_attributions([GIVEN], message)


def test_each_text_has_its_answers():
    same = list(asked_attributions(["a [MASK]", ("b [MASK]", "c")], ("is", "are"), None).items)
    assert [(one.answer, one.other_answer, one.text_pair, one.HasField("mask")) for one in same] == [
        ("is", "are", "", False),
        ("is", "are", "c", False),
    ]
    asked = asked_attributions(iter(["a [MASK]", "b [MASK]"]), [("is", "are"), ("was", "were")], 1)
    assert asked.total is None
    assert [(one.answer, one.mask) for one in asked.items] == [("is", 1), ("was", 1)]
    for answers in ([("is", "are")], [("is", "are")] * 3, "is", [("is",)] * 2, [("is", 3)] * 2):
        with pytest.raises(bertscope.InvalidArgument, match="answers"):
            asked_attributions(["a", "b"], answers, None)
    with pytest.raises(bertscope.InvalidArgument, match="ablate"):
        attribute_logits_request(model=None, ablate=1, interventions=(), reference_texts=(), truncate=False)


def test_the_output_names_the_largest_parts():
    (found,) = read_attributions([GIVEN], reply())
    screen = Console(file=io.StringIO(), width=120)
    print_attribution(screen, found)
    out = screen.file.getvalue()
    for part in ("big minus that of old: +10.000", "feed-forward 0", "head 1:0", "1 tokens were cut away", "+1.000"):
        assert part in out
    assert out.index("feed-forward 0") < out.index("head 1:0") < out.index("head 0:1")
    document = attribution_document(found)
    assert (document["heads"][0][1], document["correlation"]) == (-2.0, pytest.approx(1.0))


@pytest.mark.parametrize("dark", [False, True])
def test_the_figure_is_a_map_of_heads_beside_the_blocks(dark, tmp_path):
    (found,) = read_attributions([GIVEN], reply())
    figure = bertscope.plot_attribution(found, dark=dark)
    left, right = (axes for axes in figure.axes if axes.get_label() != "<colorbar>")
    np.testing.assert_allclose(left.images[0].get_array(), found.heads)
    np.testing.assert_allclose(right.images[0].get_array()[:, 0], found.feed_forward)
    assert left.images[0].get_clim() == right.images[0].get_clim() == (-4, 4)
    assert r"A \$[MASK] cat." in figure.get_suptitle()
    assert to_hex(figure.get_facecolor()) == ("#11181f" if dark else "#ffffff")
    with pytest.raises(ValueError, match="must end with"):
        bertscope.save_attribution(found, tmp_path / "a.gif")
