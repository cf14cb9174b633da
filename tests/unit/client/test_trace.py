"""Traces: pairs and requests as written, streams of several parts, and sums over pairs that add up exactly."""

import math

import bertscope
import numpy as np
import pandas
import pytest
from bertscope.questions.ablation.site_effects import read_effect
from bertscope.questions.ablation.trace_assembly import begin
from bertscope.questions.ablation.traced_pairs import asked_pairs
from bertscope.v1 import ablation_sites_pb2, site_pb2

from tests.support.traces import CLEAN, CORRUPTED, PART, TARGET, assembler, effect, end, of, read, request, start, tokens


def trace():
    return read(PART, assembler()).end()


def test_a_request_says_what_is_changed():
    message = request(
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
    assert [(scope.site, list(scope.layers), list(scope.units), scope.each) for scope in message.scopes] == [
        (site_pb2.SITE_HEAD_OUTPUT, [2, 3], [5], ablation_sites_pb2.SiteScope.UNITS_EACH),
        (site_pb2.SITE_FEED_FORWARD_OUTPUT, [2, 3], [5], ablation_sites_pb2.SiteScope.UNITS_EACH),
    ]
    assert message.positions == ablation_sites_pb2.POSITION_SCOPE_EACH_WORD
    assert message.direction == ablation_sites_pb2.PATCH_DIRECTION_BREAK
    assert (len(message.interventions), len(message.site_interventions), message.memory_bytes) == (1, 1, 7)
    assert not message.HasField("change")
    assert not message.HasField("paths")
    plain = request()
    assert [scope.site for scope in plain.scopes] == [site_pb2.SITE_STATE]
    assert (plain.positions, plain.direction) == (0, 0)


@pytest.mark.parametrize(
    ("change", "kind"), [(0, "scale"), (np.float32(2), "scale"), ("mean", "mean"), (bertscope.add(0, [1.0]).change, "add")]
)
def test_a_change_takes_the_place_of_the_other_run(change, kind):
    assert request(change=change).change.WhichOneof("change") == kind
    with pytest.raises(bertscope.InvalidArgument, match='must be a factor, "mean" or the change'):
        request(change="zero")


def test_paths_have_layers_of_their_own():
    message = request(paths=True, sender_layers=2, receiver_layers=[3, 6])
    assert (list(message.paths.sender_layers), list(message.paths.receiver_layers)) == ([2], [3, 6])
    assert not message.scopes
    for name, value in {"sites": "heads", "layers": 1, "positions": "each", "each_unit": True, "change": 0}.items():
        with pytest.raises(bertscope.InvalidArgument, match=f"{name}: must be left out with paths"):
            request(paths=True, **{name: value})
    with pytest.raises(bertscope.InvalidArgument, match="sender_layers: goes with paths=True"):
        request(sender_layers=2)


def test_pairs_are_one_or_many():
    (one,) = asked_pairs(CLEAN, CORRUPTED, TARGET, {"subject": (4, 8)})
    assert (one.message.clean.text, one.message.corrupted.text) == (CLEAN, CORRUPTED)
    assert one.message.target.mask.answer == "are"
    assert [(group.name, group.spans.spans[0].end) for group in one.message.groups] == [("subject", 8)]
    pair = asked_pairs(("a", "b"), ("c", "d"), TARGET, None)[0].message
    assert (pair.clean.text_pair, pair.corrupted.text_pair) == ("b", "d")
    other = bertscope.TextLabel("good")
    noise, masks = bertscope.NoisyWords((4, 8), deviation=2, samples=3, seed=4), bertscope.MaskedWords([(0, 3), (4, 8)])
    found = [each.message for each in asked_pairs(["a", "b"], [noise, masks], [TARGET, other], [{"x": (0, 1)}, {}])]
    assert (found[0].noise.deviation, found[0].noise.samples, found[0].noise.seed) == (2, 3, 4)
    assert [(span.start, span.end) for span in found[1].masked.spans] == [(0, 3), (4, 8)]
    assert found[1].target.label.label == "good"
    assert asked_pairs("a", None, TARGET, None)[0].message.WhichOneof("corruption") is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((["a", "b"], ["c"], TARGET, None), "corrupted: has 1 for 2 clean texts; give one for each"),
        ((["a", "b"], bertscope.MaskedWords((0, 1)), TARGET, None), "corrupted: is of one text"),
        ((["a", "b"], ["c", "d"], [TARGET], None), "target: has 1 for 2"),
        ((["a", "b"], ["c", "d"], TARGET, {"x": (0, 1)}), "groups: are of one text"),
        (("a", "b", "are", None), r"target\[0\]: must be one of Answer|target: must be one for each"),
        (("a", "b", TARGET, {"x": []}), "is empty"),
    ],
)
def test_what_makes_no_pairs_is_refused(given, says):
    with pytest.raises(bertscope.InvalidArgument, match=says):
        asked_pairs(*given)


def test_a_stream_becomes_a_trace():
    found = trace()
    assert (found.layers, found.sites, found.names) == ((0, 2), ("state",), ("keys", "[MASK]"))
    np.testing.assert_array_equal(found.recovery, [[1, np.nan], [0.5, -0.25]])
    np.testing.assert_array_equal(found.difference, [[8, np.nan], [4, -2]])
    assert found.baseline == (4, -4)
    assert (found.target, found.positions, found.direction) == ('logit of "are" minus that of "is"', "each", "restore")
    assert (found.layer_passes, found.full_layer_passes, found.provenance.model) == (21, 36, "models/m")
    assert found.interval() == (None, None, None)
    assert "keys, layer 0: +1.000" in found._repr_html_()
    table = found.to_pandas()
    assert table.loc[1, ["site", "layer", "position", "name", "recovery"]].tolist() == ["state", 2, 2, "keys", 0.5]
    assert pandas.isna(table.loc[1, "recovery_low"])


def test_units_are_an_axis_of_their_own():
    part = [start(2), of(effect(1, 2, 8, unit=3)), of(effect(1, 3, 4, unit=0)), end()]
    found = read(part, assembler()).end()
    assert found.recovery.shape == (1, 4, 2)
    assert found.recovery[0, 3, 0] == 1
    assert "state 1:3, keys" in found._repr_html_()


def test_words_are_those_of_the_text():
    words = [*tokens()]
    words[4].word = words[3].word  # a word of two pieces
    message = start(1, positions=ablation_sites_pb2.POSITION_SCOPE_EACH_WORD)
    del message.start.pairs[0].tokens[:]
    message.start.pairs[0].tokens.extend(words)
    found = read([message, of(effect(0, 3, 8)), end()], assembler()).end()
    assert found.pairs[0].words == ("[CLS]", "The", "keys", "[MASK] here", ".", "[SEP]")
    assert found.names == ("[MASK] here",)


def test_several_sites_are_several_matrices():
    part = [start(2), of(effect(0, 2, 8)), of(effect(0, 2, 2, site=site_pb2.SITE_HEAD_OUTPUT)), end()]
    found = read(part, assembler(sites=["state", "heads"])).end()
    assert found.matrix("difference", "heads").tolist() == [[2]]
    with pytest.raises(bertscope.InvalidArgument, match="site: must be one of state, heads"):
        found.recovery  # noqa: B018
    with pytest.raises(bertscope.InvalidArgument, match="site: must be one of state, heads"):
        found.matrix("recovery", "neurons")
    with pytest.raises(bertscope.InvalidArgument, match="what: must be one of recovery, difference"):
        found.matrix("score", "heads")


def test_paths_are_no_matrix():
    receiver = ablation_sites_pb2.PathReceiver(part=ablation_sites_pb2.PathReceiver.PART_KEY, layer=3, head=1)
    part = [start(1, positions=0), of(effect(0, None, 8, unit=2, receiver=receiver, site=site_pb2.SITE_HEAD_OUTPUT)), end()]
    found = read(part, assembler(paths=True)).end()
    assert found.positions == "paths"
    assert found.effects[0].receiver == bertscope.PathReceiver("key", 3, 1)
    assert "heads 0:2 -&gt; key 3:1" in found._repr_html_()
    assert [row[3] for row in found.rows()] == ["key 3:1"]
    with pytest.raises(bertscope.InvalidArgument, match="these are paths"):
        found.recovery  # noqa: B018


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


def test_a_part_that_begins_again_counts_once():
    whole = read([*PART[:3], *PART], assembler()).end()
    assert [each.count for each in whole.effects] == [1, 1, 1]


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


def test_without_a_ratio_there_is_no_recovery():
    found = read_effect(effect(0, 2, 1, ratios=0))
    assert math.isnan(found.recovery)
    assert found.difference == 1
    assert math.isnan(read_effect(ablation_sites_pb2.SiteEffect()).difference)


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([of(effect(0, 1, 1))], "the effect of a sweep where it is not due"),
        ([start(1), end()], "announced 1 effects and sent 0"),
        ([start(1, pairs=2)], "began a sweep over 2 pairs, and 1 are left"),
        ([start(1), of(effect(0, 1, math.nan))], "not finite"),
        ([start(1), of(effect(0, 1, 1, ratios=2))], "more ratios than pairs"),
        ([start(1), of(effect(0, 1, 1))], "0 of 1 pairs are complete"),
        ([*PART, *PART], "began a sweep over 1 pairs, and 0 are left"),
    ],
)
def test_replies_that_break_the_contract_are_refused(messages, says):
    with pytest.raises(bertscope.InvalidReply, match=says):
        read(messages, assembler()).end()


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
    with pytest.raises(bertscope.InvalidArgument, match="is a whole trace"):
        begin(request(), messages[:1], loaded)
    with pytest.raises(bertscope.InvalidArgument, match="must be a Trace or its file"):
        begin(request(), messages, 5)
    (tmp_path / "trace.json").write_text("{}")
    with pytest.raises(bertscope.InvalidArgument, match="is not a trace as JSON"):
        begin(request(), messages, tmp_path / "trace.json")
