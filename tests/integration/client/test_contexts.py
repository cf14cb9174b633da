"""`find_contexts` on real servers: any division of a corpus among calls and servers gives what one call gives."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.client import representations_context as context_calls

from tests.support.harness import Host, LoopThread, launched
from tests.support.relations import LINKED
from tests.support.tiny import SENTENCES

CLOSE = 1e-5
SIZE = 32
TEXTS: list[Any] = [
    *SENTENCES,
    *(
        bertscope.RelationText(text.texts[0], sorted({("r", *pair[1:]) for pair in text.pairs}), text.words)
        for text in LINKED[:8]
    ),
    (SENTENCES[1], SENTENCES[3]),
    "unbeatable",
    *SENTENCES[:4],  # again, so that values are equal
]
PAIRED = [text for text in TEXTS if isinstance(text, bertscope.RelationText)]
VECTORS = np.random.default_rng(3).normal(size=(2, SIZE))
DIRECTIONS = [
    bertscope.SiteDirection("plain", 1, VECTORS[0], bias=0.5),
    bertscope.SiteDirection("rare", 2, VECTORS[1], threshold=4.0),
    bertscope.SiteDirection("near", 1, VECTORS[1], cosine=True),
]
ASKED: dict[str, Any] = {"heads": "all", "neurons": {0: None, 2: [1, 5]}, "directions": DIRECTIONS, "seed": 9}


@pytest.fixture
def client(host: Host) -> Iterator[bertscope.Client]:
    with bertscope.Client(host.target) as client:
        yield client


@pytest.fixture(scope="module")
def other(loop: LoopThread, checkpoints: dict[str, Path]) -> Iterator[Host]:
    """A second server of the same model."""
    with launched(loop, model=[f"bert={checkpoints['bert']}"]) as running:
        yield running


def key(place: bertscope.Place) -> tuple[int, Any, Any]:
    return place.text_index, place.span, place.partner_span


def values(places: Sequence[bertscope.Place]) -> list[float]:
    return [place.value for place in places]


def assert_same(found: bertscope.Contexts, wanted: bertscope.Contexts) -> None:
    """Counts and drawn places are equal; the best ones are where their neighbours' values differ by more than rounding."""
    assert found.units == wanted.units
    sums = ("texts", "tokens", "truncated_texts", "skipped_pairs")
    assert [getattr(found, name) for name in sums] == [getattr(wanted, name) for name in sums]
    for one, other in zip(found, wanted, strict=True):
        assert (one.count, one.edges) == (other.count, other.edges)
        np.testing.assert_allclose([one.mean, one.deviation], [other.mean, other.deviation], atol=CLOSE, rtol=CLOSE)
        assert np.abs(np.subtract(one.histogram, other.histogram)).max() <= 1
        assert {(place.text_index, place.span) for place in one.sample} == {
            (place.text_index, place.span) for place in other.sample
        }
        for ours, theirs in ((one.best, other.best), (one.sample, other.sample)):
            np.testing.assert_allclose(values(ours), values(theirs), atol=CLOSE, rtol=CLOSE)
            apart = np.diff(values(theirs), prepend=np.inf, append=np.inf)
            sure = np.abs(apart) > 4 * CLOSE
            for rank, (mine, own) in enumerate(zip(ours[:-1], theirs[:-1], strict=True)):
                if sure[rank] and sure[rank + 1]:
                    assert key(mine) == key(own)
                    assert mine.text == own.text


def divided(texts: Sequence[Any], parts: int) -> list[tuple[int, Sequence[Any]]]:
    """Parts of a corpus, each with the number of its first text; of different lengths."""
    ends = [round(len(texts) * (part / parts) ** 1.5) for part in range(parts + 1)]
    return [(begin, texts[begin:end]) for begin, end in pairwise(ends) if end > begin]


def test_the_client_s_own_calls_add_up(client: bertscope.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = client.find_contexts(TEXTS, **ASKED)
    monkeypatch.setattr(context_calls, "CALL_TEXTS", 4)
    done: list[int] = []
    found = client.find_contexts(iter(TEXTS), on_progress=lambda progress: done.append(progress.done), **ASKED)
    assert_same(found, whole)
    assert done == sorted(done)
    assert done[-1] == len(TEXTS)


def test_pairs_merge(client: bertscope.Client) -> None:
    asked: dict[str, Any] = {"heads": {0: None, 1: [2]}, "relation": "r", "places": 5, "sample": 7}
    whole = client.find_contexts(PAIRED, **asked)
    assert {place.partner_span for place in whole[0].best} != {None}
    parts = [client.find_contexts(texts, first_index=begin, **asked) for begin, texts in divided(PAIRED, 4)]
    assert_same(bertscope.Contexts.merge(parts), whole)
    without = client.find_contexts([bertscope.RelationText("The cat sat.", [])], first_index=50, **asked)
    assert (without[0].count, without[0].best, without[0].sample, np.isnan(without[0].mean)) == (0, (), (), True)
    for order in ([*parts, without], [without, *parts]):
        merged = bertscope.Contexts.merge(order)
        assert (merged.texts, merged[0].count) == (whole.texts + 1, whole[0].count)
        assert values(merged[0].best) == pytest.approx(values(whole[0].best), abs=CLOSE)
        assert [place.value for place in merged[1].sample] == pytest.approx(
            [place.value for place in whole[1].sample], abs=CLOSE
        )


def test_rejected_texts_leave_numbers_as_they_are(client: bertscope.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_calls, "CALL_TEXTS", 5)
    long = "cat " * 200
    texts = [*SENTENCES[:3], long, *SENTENCES[3:8], long, SENTENCES[8]]
    rejected: list[int] = []
    found = client.find_contexts(texts, on_rejected=lambda index, _: rejected.append(index), **ASKED)
    assert rejected == [3, 9]
    assert found.texts == len(texts) - 2
    for one in found:
        for place in one.best:
            assert texts[place.text_index] == place.text
    parts = [client.find_contexts(texts[begin:end], first_index=begin, **ASKED) for begin, end in ((0, 3), (4, 9), (10, 11))]
    assert_same(found, bertscope.Contexts.merge(parts))
    with pytest.raises(bertscope.InvalidArgument, match=r"texts\[3\]") as caught:
        client.find_contexts(texts, **ASKED)
    assert caught.value.partial is None or caught.value.partial.texts <= 5


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"places": 11}, "best"),
        ({"sample": 99}, "sample"),
        ({"heads": {0: [1]}}, "units"),
        ({"seed": 4}, "another seed"),
        ({"words": ["cat"]}, "other words"),
        ({"pieces": True}, "pieces"),
        ({"interventions": bertscope.zero(0)}, "other interventions"),
        ({}, "texts 0 to 1, and parts.0. texts 0 to 1; search each part with its own `first_index`"),
        ({"first_index": 1}, "parts.1.: has texts 1 to 2, and parts.0. texts 0 to 1"),
    ],
)
def test_parts_that_were_asked_otherwise_do_not_merge(client: bertscope.Client, fields: dict[str, Any], reason: str) -> None:
    one = client.find_contexts([*SENTENCES[:2]], **ASKED)
    with pytest.raises(bertscope.InvalidArgument, match=reason):
        bertscope.Contexts.merge([one, client.find_contexts([*SENTENCES[:2]], **{**ASKED, **fields})])


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda client: client.find_contexts(SENTENCES[0]), "name at least one unit"),
        (lambda client: bertscope.NearestTo("abc", (2, 900), layer=1), "no word of the text"),
        (
            lambda client: client.find_contexts(
                SENTENCES[0], directions=[bertscope.SiteDirection(str(at), 0, [1.0] * 2**20) for at in range(4)]
            ),
            "search fewer at a time",
        ),
    ],
)
def test_what_can_t_be_sent_is_refused_at_once(client: bertscope.Client, ask: Any, told: str) -> None:
    with pytest.raises(bertscope.InvalidArgument, match=told):
        ask(client)


def test_a_search_that_is_cut_short_goes_on(client: bertscope.Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From a file, to the same result, telling of the same texts; what it was not asked is refused."""
    monkeypatch.setattr(context_calls, "KEPT_TEXTS", 3)
    texts, rejected, again = [*TEXTS[:7], " ".join(SENTENCES * 20), *TEXTS[7:]], list[int](), list[int]()
    near = bertscope.NearestTo(SENTENCES[0], (0, len(SENTENCES[0].split()[0])), 1)
    asked = ASKED | {"nearest": near}
    whole = client.find_contexts(texts, on_rejected=lambda index, _: rejected.append(index), **asked)
    path = tmp_path / "kept.npz"

    def keep(found: bertscope.Contexts) -> None:
        bertscope.save_contexts(found, path)
        if found.texts == 6:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        client.find_contexts(texts, on_found=keep, on_rejected=lambda *_: None, **asked)
    more = {"start_from": path, "on_rejected": lambda index, _: again.append(index)}
    found = client.find_contexts(iter(texts), on_found=lambda _: None, **more, **asked)
    assert_same(found, whole)
    assert again == rejected == [7]
    assert client.find_contexts(texts, start_from=found, **asked) is found
    for wrong, fields, told in (
        (texts, {"seed": 8}, "other units, places, sample, seed"),
        (["Another.", *texts[1:]], {}, "another text 0"),
        (texts[:2], {}, "has read 6 texts, and these are 2"),
        (texts, {"first_index": 1}, "does not begin at text 1"),
        (texts, {"start_from": 3}, "must be Contexts or their file"),
    ):
        with pytest.raises(bertscope.InvalidArgument, match=told):
            client.find_contexts(wrong, **asked | more | fields)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(bertscope.InvalidArgument, match="is not a file of contexts"):
        bertscope.load_contexts(path)
