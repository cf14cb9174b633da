"""Probes: the request, the treebank's labels, the stream read, its table, its output, its figure, and broken replies."""

import io
from pathlib import Path

import bertscope
import numpy as np
import pytest
from bertscope.questions.probes.probe_replies import ProbeAssembler
from bertscope.questions.probes.probe_requests import with_probe_texts
from bertscope.questions.probes.probes import ProbeResult, probe_columns
from bertscope.questions.probes.requests import train_probe_request
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_probes_pb2 as probes
from bertscope.values.intervals import share_interval, wilson_interval
from bertscope_workbench.command.commands.probe import document, print_probe
from bertscope_workbench.plots.probes import plot_probe
from rich.console import Console

TREE = """\
# text = The cat doesn't sleep.
1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2\tcat\tcat\tNOUN\tNN\t_\t5\tnsubj\t_\t_
3\tdoes\tdo\tAUX\tVBZ\t_\t5\taux\t_\tSpaceAfter=No
4\tn't\tnot\tPART\tRB\t_\t5\tadvmod\t_\t_
5\tsleep\tsleep\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No
6\t.\t.\tPUNCT\t_\t_\t5\tpunct\t_\t_

1\tround\tround\tX\tX\t_\t2\tdep\t_\t_
2\tround\tround\tX\tX\t_\t1\tdep\t_\t_
"""
TEXT = bertscope.ProbeText("The cat sleeps.", [("NOUN", 4, 7), ("DET", 0, 3)])


def request(train=TEXT, *, dev=(), test=(), labels=None, **fields):
    return with_probe_texts(train_probe_request(**fields), train, dev=dev, test=test, labels=labels)


def run(correct, test=True):
    score = probes.ProbeScore(correct=correct, loss=0.5)
    return probes.ProbeRun(seed=3, best_epoch=2, dev=score, test=score if test else None)


def hits(correct, runs=2):
    """Of 10 texts of a span: so many correct ones together, of as many seeds."""
    full, rest = divmod(correct, runs)
    kinds = [(0, 10 - full - bool(rest)), *([(rest, 1)] if rest else []), (runs, full)]
    return [probes.TextHits(spans=1, correct=own, texts=texts) for own, texts in kinds if texts]


def report(test=True, **fields):
    part = probes.ProbePart(texts=2, spans=10, label_spans=[6, 4], majority_correct=6, truncated_spans=1)
    layers = [
        probes.LayerProbes(
            layer=layer, task=[run(7 + layer, test), run(8, test)], control=[run(5, test)], hits=hits(15 + layer)
        )
        for layer in (0, 2)
    ]
    usual = {"layers": layers, "train": part, "dev": part, "test": part if test else None, "best_layer": 2}
    usual |= {"confusion": [5, 1, 0, 4], "pooling": probes.TrainProbeRequest.POOLING_FIRST, "hidden_size": 4}
    found = probes.ProbeReport(**usual | fields)
    found.provenance.model = "models/m"
    return probes.TrainProbeResponse(report=found)


def read(*messages, **fields):
    assembler = ProbeAssembler(request(**fields))
    return [assembler.add(message) for message in messages]


@pytest.mark.parametrize(
    ("label", "names"),
    [
        ("upos", ["DET", "NOUN", "AUX", "PART", "VERB", "PUNCT"]),
        ("xpos", ["DT", "NN", "VBZ", "RB", "VB"]),
        ("deprel", ["det", "nsubj", "aux", "advmod", "root", "punct"]),
        ("head", ["+1", "+3", "+2", "+1", "root", "-1"]),
        ("depth", ["2", "1", "1", "1", "0", "1"]),
        ("arc", ["det", "nsubj", "aux", "advmod", "punct"]),
    ],
)
def test_labels_of_a_treebank(tmp_path: Path, label: bertscope.ConlluLabel, names: list[str]) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(TREE, encoding="utf-8")
    found = bertscope.read_probe_conllu(path, label)
    assert [name for name, *_ in found[0].labels] == names
    assert [found[0].text[start:end] for _, start, end, *_ in found[0].labels][2:4] == ["does", "n't"]
    assert len(found.problems) == (label == "depth")  # heads in a circle


def test_arcs_are_pairs_of_a_word_and_its_head(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(TREE, encoding="utf-8")
    found = bertscope.read_probe_conllu(path, "arc")
    assert found[0].labels[0] == ("det", 0, 3, 0, (4, 7, 0))
    assert [label.other for label in found[1].labels] == [(6, 11, 0), (0, 5, 0)]
    message = request(train=[*found[:1], bertscope.ProbeText(("a b", "c"), [("det", (0, 1), (0, 1, 1))])])
    sent = [(entry.span.start, entry.other.end, entry.other.segment) for text in message.train for entry in text.spans]
    assert sent[0] == (0, 7, 0)
    assert sent[-1] == (0, 1, 1)
    assert not request().train[0].spans[0].HasField("other")


def test_a_request_numbers_the_labels_of_all_parts() -> None:
    other = bertscope.ProbeText(("The cat", "sleeps"), [("VERB", 0, 6, 1)])
    message = request(dev=[other], l2=0)
    assert list(message.labels) == ["DET", "NOUN", "VERB"]
    assert [(entry.label, entry.span.start, entry.span.end) for entry in message.train[0].spans] == [(1, 4, 7), (0, 0, 3)]
    assert message.dev[0].spans[0] == probes.LabelledSpan(span=common_pb2.CharacterSpan(start=0, end=6, segment=1), label=2)
    assert message.HasField("l2")


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("train", {"train": []}),
        ("train[0]", {"train": ["a text"]}),
        ("train[0].labels[1]", {"labels": ["NOUN"]}),
        ("pooling", {"pooling": "max"}),
        ("ending", {"ending": "never"}),
        ("seeds", {"seeds": 0}),
    ],
)
def test_what_cannot_be_sent(field: str, fields: dict[str, object]) -> None:
    with pytest.raises(bertscope.InvalidArgument) as error:
        request(**fields)
    assert error.value.field_violations[0].field == field


def test_a_stream_becomes_progress_and_a_result() -> None:
    stage = probes.ProbeProgress(stage=probes.ProbeProgress.STAGE_TRAINING, done=1, total=40, best_dev_accuracy=0.5)
    progress, result = read(probes.TrainProbeResponse(progress=stage), report())
    assert progress == bertscope.ProbeProgress("training", 1, 40, 0.5)
    assert isinstance(result, ProbeResult)
    best = result.layer(2)
    assert (best.accuracy, best.control_accuracy, best.spread) == (pytest.approx(0.85), 0.5, (0.8, 0.9))
    assert best.selectivity == pytest.approx(0.35)
    assert best.interval.low < 0.85 < best.interval.high
    assert (result.majority_label, result.part.majority, result.pooling, result.seeds) == ("DET", 0.6, "first", (3, 3))
    assert result.confusions() == [("DET", "NOUN", 1)]
    with pytest.raises(KeyError):
        result.layer(1)
    table = result.to_pandas()
    assert list(table.columns) == list(probe_columns(result))
    assert read(report(test=False))[0].scored == "dev"


def test_weights_come_after_the_report() -> None:
    values = np.arange(8, dtype="<f4").reshape(4, 2)
    tensor = common_pb2.Tensor(dtype=common_pb2.DATA_TYPE_FLOAT32, shape=values.shape, data=values.tobytes())
    biases = common_pb2.Tensor(dtype=common_pb2.DATA_TYPE_FLOAT32, shape=[2], data=values[0].tobytes())
    sent = [
        probes.TrainProbeResponse(weights=probes.ProbeWeights(layer=layer, weights=tensor, biases=biases)) for layer in (0, 2)
    ]
    *earlier, result = read(report(), *sent, weights=True)
    assert earlier == [None, None]
    np.testing.assert_array_equal(result.weights[2][0], values)
    biases.data = biases.data[:4]
    sent[0].weights.biases.CopyFrom(biases)
    with pytest.raises(bertscope.InvalidReply, match="biases"):
        read(report(), sent[0], weights=True)


def mixed(layers=(0, 2), shares=(0.25, 0.75)):
    cumulative = [probes.LayerProbes(layer=layer, task=[run(5 + layer)], hits=hits(5 + layer, 1)) for layer in layers]
    return probes.LayerMix(cumulative=cumulative, weights=[probes.MixingWeights(seed=3, scale=2, shares=shares)])


def test_a_mix_has_a_centre_and_an_expected_layer() -> None:
    (result,) = read(report(mix=mixed()), mix=True)
    assert result.mix is not None
    assert result.mix.centre_of_gravity == 1.5
    np.testing.assert_allclose(result.mix.gains, [0.2])
    assert result.mix.expected_layer == pytest.approx(2)
    assert result.mix.to_pandas()["share"].tolist() == [0.25, 0.75]
    screen = Console(file=io.StringIO(), width=160)
    print_probe(screen, result, [])
    assert "centre of gravity 1.50, expected layer 2.00" in screen.file.getvalue()
    assert document(result)["mix"]["layers"][1]["gain"] == pytest.approx(0.2)
    _, shares, _, _ = plot_probe(result).axes
    assert [bar.get_height() for bar in shares.patches] == [25, 75]
    for broken in (mixed(layers=(0, 1)), mixed(shares=(1,)), probes.LayerMix()):
        with pytest.raises(bertscope.InvalidReply, match="mix"):
            read(report(mix=broken), mix=True)


def test_a_hidden_layer_has_two_pairs_of_weights() -> None:
    def tensor(*shape):
        return common_pb2.Tensor(dtype=common_pb2.DATA_TYPE_FLOAT32, shape=shape, data=np.ones(shape, "<f4").tobytes())

    def sent(units):
        weights, biases, classes = tensor(4, units), tensor(units), tensor(2)
        own = probes.ProbeWeights(weights=weights, biases=biases, output_weights=tensor(units, 2), output_biases=classes)
        for own.layer in (0, 2):
            yield probes.TrainProbeResponse(weights=own)

    *_, result = read(report(), *sent(3), weights=True, hidden_units=3)
    assert [values.shape for values in result.weights[2]] == [(4, 3), (3,), (3, 2), (2,)]
    with pytest.raises(bertscope.InvalidReply, match="biases"):
        read(report(), *sent(2), weights=True, hidden_units=3)


@pytest.mark.parametrize("fields", [{"confusion": [1]}, {"majority_label": 2}, {"layers": []}])
def test_reports_that_break_the_contract(fields: dict[str, object]) -> None:
    with pytest.raises(bertscope.InvalidReply):
        read(report(**fields))


def test_output_and_figure() -> None:
    (result,) = read(report())
    screen = Console(file=io.StringIO(), width=160)
    print_probe(screen, result, [])
    text = screen.file.getvalue()
    assert "2 *" in text
    assert "+35.0" in text
    assert "always 'DET': 60.0 %" in text
    assert "DET as NOUN (1)" in text
    assert "1 cut away" in text
    assert document(result)["layers"][1]["control"] == 0.5
    curves, table, _ = plot_probe(result).axes
    np.testing.assert_allclose(curves.lines[0].get_ydata(), [75, 85])
    np.testing.assert_allclose(table.images[0].get_array(), [[500 / 6, 100 / 6], [0, 100]])


def test_hits_that_are_not_the_score_are_refused() -> None:
    for broken in ([], hits(14), [probes.TextHits(spans=2, correct=15, texts=1)]):
        message = report()
        del message.report.layers[0].hits[:]
        message.report.layers[0].hits.extend(broken)
        with pytest.raises(bertscope.InvalidReply, match="hits of layer 0"):
            read(message)


@pytest.mark.slow
@pytest.mark.parametrize("alike", [0.1, 0.02])
def test_intervals_of_words_hold_where_those_of_a_sentence_are_alike(alike: float) -> None:
    """Wilson's take every word for one of its own: of sentences with 5 to 35 words they hold .81 to .92 times."""
    numbers, share = np.random.default_rng(13), 0.8
    held = {"texts": 0, "words": 0}
    for _ in range(200):
        words = numbers.integers(5, 36, 50)
        skill = numbers.beta(share * (1 / alike - 1), (1 - share) * (1 / alike - 1), 50)
        right = numbers.binomial(words, skill)
        interval = share_interval(right.astype(float), words.astype(float))
        held["texts"] += interval.low <= share <= interval.high
        plain = wilson_interval(int(right.sum()), int(words.sum()))
        held["words"] += plain.low <= share <= plain.high
    # 200 intervals of 95 % hold fewer than 181 times with a probability below .5 %.
    assert held["texts"] >= 181 and held["words"] < held["texts"]
    assert alike < 0.05 or held["words"] < 170


def test_few_texts_have_intervals_too() -> None:
    assert share_interval(np.array([]), np.array([])) == (0.0, 1.0)
    few = share_interval(np.array([9.0, 4.0]), np.array([10.0, 5.0]))
    assert 0 <= few.low < 13 / 15 < few.high <= 1
