"""Traces: pairs and requests as written, streams of several parts, and sums over pairs that add up exactly."""

import math

import bertscope
import numpy as np
import pytest
from bertscope.questions.ablation.site_effects import read_effect
from bertscope.questions.ablation.trace_assembly import begin
from bertscope.questions.ablation.traced_pairs import asked_pairs
from bertscope.v1 import ablation_sites_pb2, site_pb2
from bertscope_workbench.plots.trace_html import trace_html

from tests.support.broken_replies import refusals
from tests.support.traces import CLEAN, CORRUPTED, PART, TARGET, assembler, effect, end, of, read, request, start, tokens


def trace():
    return read(PART, assembler()).end()


def test_parts_of_the_pairs_are_added_exactly():
    other = [start(2, pairs=2, clean=6.0, corrupted=0.0), of(effect(2, 2, 2, count=2)), of(effect(5, 3, 1)), end(7)]
    running = read([*PART, *other], assembler(3))
    whole = running.end()
    assert running.done == 3
    assert [(each.layer, each.position, each.count, each.sum) for each in whole.effects] == [
        (0, 2, 1, 8),
        (2, 2, 3, 8),
        (2, 3, 1, -2),
        (5, 3, 1, 1),
    ]
    assert whole.names == ("2", "3")
    assert whole.baseline == (16 / 3, -4 / 3)
    assert whole.layer_passes == 28
    added = trace() + trace()
    assert (added.effects[0].count, added.effects[0].sum_of_squares, len(added.pairs)) == (2, 128, 2)
    with pytest.raises(bertscope.InvalidArgument, match="has asked"):
        trace() + read(PART, assembler(layers=2)).end()


def test_intervals_are_over_pairs():
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    message = effect(0, 2, 1, count=5)
    message.sum, message.sum_of_squares = sum(values), sum(value**2 for value in values)
    message.ratios = 4
    found = read_effect(message)
    low, high = found.interval("difference")
    reach = 2.7764451 * math.sqrt(2.5 / 5)  # Student's t with four degrees of freedom
    assert (low, high) == pytest.approx((3 - reach, 3 + reach))
    assert found.interval("recovery") is None
    with pytest.raises(bertscope.InvalidArgument, match="recovery, difference"):
        found.interval("score")


def test_a_trace_that_was_cut_short_goes_on(tmp_path):
    running = read([*PART, start(1), of(effect(0, 2, 8))], assembler(2))
    partial = running.partial("interrupted")
    assert (partial.complete, len(partial.pairs)) == (False, 1)
    assert assembler(2).partial("interrupted") is None
    partial.save(tmp_path / "trace.json")
    loaded = bertscope.Trace.load(tmp_path / "trace.json")
    assert (loaded.effects, loaded.pairs, loaded.asked) == (partial.effects, partial.pairs, dict(partial.asked))
    messages = [each.message for each in asked_pairs([CLEAN] * 2, [CORRUPTED] * 2, TARGET, None)]
    earlier = begin(request(), messages, tmp_path / "trace.json")
    whole = read(PART, assembler(2, earlier)).end()
    assert whole.complete
    assert [each.count for each in whole.effects] == [2, 2, 2]
    assert whole.digests == assembler(2)._digests
    with pytest.raises(bertscope.InvalidArgument, match="start_from was measured with direction null, and not"):
        begin(request(direction="break"), messages, loaded)
    with pytest.raises(bertscope.InvalidArgument, match="has another pair 0"):
        begin(request(), [asked_pairs("x", "y", TARGET, None)[0].message], loaded)
    assert begin(request(), messages[:1], loaded).complete
    with pytest.raises(bertscope.InvalidArgument, match="must be a Trace or its file"):
        begin(request(), messages, 5)
    (tmp_path / "trace.json").write_text("{}")
    with pytest.raises(bertscope.InvalidArgument, match="is not a trace as JSON"):
        begin(request(), messages, tmp_path / "trace.json")


def test_requests(stored) -> None:
    whole = request(
        sites=["heads", "feed_forward"],
        layers=[2, 3],
        units=5,
        each_unit=True,
        positions="each_word",
        direction="break",
        interventions=[bertscope.zero(1), bertscope.mean_site(2)],
        reference_texts="a",
        memory_bytes=7,
    )
    changes = 0, np.float32(2), "mean", bertscope.add(0, [1.0]).change
    not_with_paths = {"sites": "heads", "layers": 1, "positions": "each", "each_unit": True, "change": 0}
    stored(
        whole=whole,
        plain=request(),
        changes=[request(change=change).change for change in changes],
        paths=request(paths=True, sender_layers=2, receiver_layers=[3, 6]),
        refused=[
            lambda: request(change="zero"),
            lambda: request(sender_layers=2),
            *(lambda name=name, value=value: request(paths=True, **{name: value}) for name, value in not_with_paths.items()),
        ],
    )


def test_pairs_are_one_or_many(stored) -> None:
    noise, masks = bertscope.NoisyWords((4, 8), deviation=2, samples=3, seed=4), bertscope.MaskedWords([(0, 3), (4, 8)])
    stored(
        one=asked_pairs(CLEAN, CORRUPTED, TARGET, {"subject": (4, 8)})[0].message,
        of_pairs=asked_pairs(("a", "b"), ("c", "d"), TARGET, None)[0].message,
        many=[
            each.message
            for each in asked_pairs(["a", "b"], [noise, masks], [TARGET, bertscope.TextLabel("good")], [{"x": (0, 1)}, {}])
        ],
        alone=asked_pairs("a", None, TARGET, None)[0].message,
        refused=[
            lambda: asked_pairs(["a", "b"], ["c"], TARGET, None),
            lambda: asked_pairs(["a", "b"], bertscope.MaskedWords((0, 1)), TARGET, None),
            lambda: asked_pairs(["a", "b"], ["c", "d"], [TARGET], None),
            lambda: asked_pairs(["a", "b"], ["c", "d"], TARGET, {"x": (0, 1)}),
            lambda: asked_pairs("a", "b", "are", None),
            lambda: asked_pairs("a", "b", TARGET, {"x": []}),
        ],
    )


def test_a_stream_becomes_a_trace(stored) -> None:
    found = trace()
    words = [*tokens()]
    words[4].word = words[3].word  # a word of two pieces
    of_words = start(1, positions=ablation_sites_pb2.POSITION_SCOPE_EACH_WORD)
    del of_words.start.pairs[0].tokens[:]
    of_words.start.pairs[0].tokens.extend(words)
    joined = read([of_words, of(effect(0, 3, 8)), end()], assembler()).end()
    assert [each.count for each in read([*PART[:3], *PART], assembler()).end().effects] == [1, 1, 1]  # a part that begins again
    stored(
        trace=found,
        interval=found.interval(),
        page=trace_html(found),
        words=[joined.pairs[0].words, joined.names],
        without_a_ratio=read_effect(effect(0, 2, 1, ratios=0)),
        of_no_pair=read_effect(ablation_sites_pb2.SiteEffect()),
        broken=refusals(lambda messages: read(messages, assembler()).end(), start(1), of(effect(0, 2, 8)), end()),
        others=[lambda: read([start(1, pairs=2)], assembler()).end(), lambda: read([*PART, *PART], assembler()).end()],
    )


def test_units_sites_and_paths(stored) -> None:
    units = read([start(2), of(effect(1, 2, 8, unit=3)), of(effect(1, 3, 4, unit=0)), end()], assembler()).end()
    head = site_pb2.SITE_HEAD_OUTPUT
    sites = read(
        [start(2), of(effect(0, 2, 8)), of(effect(0, 2, 2, site=head)), end()], assembler(sites=["state", "heads"])
    ).end()
    receiver = ablation_sites_pb2.PathReceiver(part=ablation_sites_pb2.PathReceiver.PART_KEY, layer=3, head=1)
    path = of(effect(0, None, 8, unit=2, receiver=receiver, site=head))
    paths = read([start(1, positions=0), path, end()], assembler(paths=True)).end()
    stored(
        units=units.to_pandas(),
        matrix_of_units=units.recovery,
        sites=sites.to_pandas(),
        matrix_of_heads=sites.matrix("difference", "heads"),
        paths=paths.effects,
        frame_of_paths=paths.to_pandas(),
        pages=[trace_html(units), trace_html(paths)],
        refused=[
            lambda: sites.recovery,
            lambda: sites.matrix("recovery", "neurons"),
            lambda: sites.matrix("score", "heads"),
            lambda: paths.recovery,
        ],
    )
