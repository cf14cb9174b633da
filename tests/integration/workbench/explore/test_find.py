"""The questions of the Find view: what they say is what the client says, and what ships is what they begin with."""

import base64
from pathlib import Path

import bertscope
import numpy as np
import pytest

TEXTS = ["The cat sat on the mat.", "A dog of a man, in the rain.", "Paris is the capital of France.", "the of in on"]
EXAMPLES = Path(__file__).parents[4] / "examples" / "sentences.conllu"
LIKE = {"like": "The cat sat on the mat.", "word": "Cat"}


def sent(place: bertscope.Place, tenth: int) -> dict[str, object]:
    partner = place.partner_span and [place.partner_span.start, place.partner_span.end]
    return {
        "text": place.text_index,
        "start": place.span.start,
        "end": place.span.end,
        "partner": partner,
        "value": pytest.approx(place.value, abs=1e-5),
        "tenth": tenth,
    }


def few(part: tuple[bertscope.Place, ...]) -> list[bertscope.Place]:
    """Up to five places of a tenth: those in the middle of as many equal parts."""
    count = min(5, len(part))
    return [part[int((index + 0.5) * len(part) / count)] for index in range(count)]


@pytest.mark.parametrize(
    ("unit", "more", "asked"),
    [
        ("head:1:2", {}, {"heads": {1: [2]}}),
        ("neuron:0:7", {}, {"neurons": {0: [7]}}),
        ("state:2", LIKE, {"nearest": bertscope.NearestTo(LIKE["like"], (4, 7), 2)}),
    ],
)
def test_contexts_are_the_clients(page, client, unit, more, asked):
    *_, first, last = page.ask("find", {"texts": TEXTS, "unit": unit, **more})
    (expected,) = client.find_contexts(TEXTS, places=30, truncate=True, **asked)
    found = first["contexts"]
    assert found["best"] == [sent(place, 0) for place in expected.best]
    assert found["tenths"] == [sent(place, tenth) for tenth, part in enumerate(expected.tenths, 1) for place in few(part)]
    assert (found["count"], found["histogram"]) == (expected.count, list(expected.histogram))
    assert found["mean"] == pytest.approx(expected.mean, abs=1e-5)
    values = {(int(text), start): value for text, words in last["values"].items() for start, _, value in words}
    assert len(values) == expected.count  # Every word of the sentences shown has its value.
    for place in (*expected.best, *expected.sample):
        assert values[place.text_index, place.span.start] == pytest.approx(place.value, abs=1e-5)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A file of probes of two layers, with three classes."""
    path = tmp_path_factory.mktemp("probes") / "probes.npz"
    draw = np.random.default_rng(0).normal
    weights = {layer: (draw(size=(32, 3)), draw(size=3)) for layer in (0, 2)}
    bertscope.KeptProbe(("ADJ", "NOUN", "VERB"), weights, "mean", "models/bert", "sha256:" + "0" * 64).save(path)
    return path


def test_a_class_of_a_probe(page, client, kept):
    data = base64.b64encode(kept.read_bytes()).decode()
    (listed,) = page.ask("directions", {"data": data})
    assert listed == {"kind": "probe", "layers": [0, 2], "names": ["ADJ", "NOUN", "VERB"], "count": 3}
    *_, first, _ = page.ask("find", {"texts": TEXTS, "unit": "probe:2:1", "data": data})
    weights, biases = bertscope.load_probe(kept).weights[2]
    wanted = bertscope.SiteDirection("NOUN", 2, weights[:, 1], bias=float(biases[1]))
    (expected,) = client.find_contexts(TEXTS, places=30, truncate=True, directions=wanted)
    assert first["contexts"]["best"] == [sent(place, 0) for place in expected.best]
    for unit, part in (("probe:1:1", "of layers 0, 2"), ("probe:2:3", "0 to 2 of layers")):
        assert part in page.refusal("find", {"texts": TEXTS, "unit": unit, "data": data})["message"]


def test_a_sparse_code(page, client, tmp_path):
    draw = np.random.default_rng(1).normal
    arrays = {"encoder": draw(size=(5, 32)), "biases": draw(size=5), "decoder": draw(size=(5, 32)), "mean": np.zeros(32)}
    codes = bertscope.SparseCodes(
        **arrays, thresholds=np.full(5, 0.5), layer=1, model="models/bert", weights_digest="sha256:" + "0" * 64
    )
    codes.save(tmp_path / "codes.safetensors")
    data = base64.b64encode((tmp_path / "codes.safetensors").read_bytes()).decode()
    assert page.ask("directions", {"data": data}) == [{"kind": "code", "layers": [1], "names": [], "count": 5}]
    *_, first, _ = page.ask("find", {"texts": TEXTS, "unit": "code:1:3", "data": data})
    best = first["contexts"]["best"]
    assert best
    assert all(place["value"] > 0 for place in best)
    for place in best:
        span = (place["start"], place["end"])
        (found,) = client.extract_hidden_states(bertscope.StatesInput(TEXTS[place["text"]], [span]), layers=1, unit="span")
        assert place["value"] == pytest.approx(float(codes.encode(found.states[0, 0])[3]), abs=1e-4)
    (event,) = page.ask("find_outstanding", {"texts": TEXTS, "layer": 1, "codes": True, "data": data})
    assert {number for number, *_ in event["units"]} <= set(range(5))
    assert (
        "no sparse codes"
        in page.refusal("find_outstanding", {"texts": TEXTS, "layer": 0, "codes": True, "data": data})["message"]
    )
    assert "of another kind" in page.refusal("find", {"texts": TEXTS, "unit": "probe:1:3", "data": data})["message"]


def test_files_that_have_no_direction(page, tmp_path):
    assert "base64" in page.refusal("directions", {"data": "?"})["message"]
    assert "not a file of sparse codes" in page.refusal("directions", {"data": "QUJD"})["message"]
    for pairs, arrays in ((False, ((32, 4), (4,), (4, 2), (2,))), (True, ((64, 2), (2,)))):
        path = tmp_path / "probes.npz"
        weights = {0: tuple(np.ones(shape) for shape in arrays)}
        bertscope.KeptProbe(("a", "b"), weights, "mean", "models/bert", "sha256:" + "0" * 64, pairs).save(path)
        message = page.refusal("directions", {"data": base64.b64encode(path.read_bytes()).decode()})["message"]
        assert ("pairs of words" if pairs else "hidden units") in message


def test_tags_that_places_have_in_common(page, client):
    texts = [f"the {word} sat ." for word in ("cat", "dog", "man", "boy", "girl", "king")] * 5
    tags = [[("DET", 0, 3), ("NOUN", 4, 4 + len(text.split()[1])), ("VERB", len(text) - 5, len(text) - 2)] for text in texts]
    sent_tags = [" ".join(f"{start}-{end}-{tag}" for tag, start, end in words) for words in tags]
    events = page.ask("find", {"texts": texts, "unit": "head:1:2", "tags": sent_tags})
    found = next(event["contexts"] for event in events if "contexts" in event)
    contexts = client.find_contexts(texts, heads={1: [2]}, places=100, sample=1000)
    counts = bertscope.count_tags(contexts, dict(enumerate(tags))).best()
    expected = [(one.of, one.tag, one.texts, one.share, one.by_chance, one.p_corrected) for one in counts if one.texts >= 20]
    assert expected
    assert [
        tuple(each[name] for name in ("of", "tag", "texts", "share", "by_chance", "p")) for each in found["tags"]
    ] == expected
    assert len(found["best"]) == 30
    assert "tags[0]" in page.refusal("find", {"texts": texts, "unit": "head:1:2", "tags": ["DET"]})["fields"]


def test_neurons_that_stand_out(page, client):
    (event,) = page.ask("find_outstanding", {"texts": TEXTS, "layer": 1})
    expected = {}
    for one in client.find_contexts(TEXTS, neurons={1: None}, places=5):
        words = [place.word.lower() for place in one.best]
        if len(set(words)) >= 3:
            expected[one.unit.number] = ((np.mean([place.value for place in one.best]) - one.mean) / one.deviation, words)
    assert len(event["units"]) == 12
    for number, above, words in event["units"]:
        assert (above, words) == (pytest.approx(expected[number][0], abs=0.06), expected[number][1])
    most = sorted((above for above, _ in expected.values()), reverse=True)
    assert event["units"][0][1] == pytest.approx(most[0], abs=0.06)
    assert event["units"][11][1] == pytest.approx(most[11], abs=0.06)


def test_a_treebank_and_a_text(page):
    broken = "1\tcat\t_\tNOUN\n\n"
    (event,) = page.ask("corpus", {"contents": EXAMPLES.read_text() + "\n" + broken, "suffix": ".conllu"})
    assert (len(event["texts"]), event["left_out"], event["cut"]) == (8, 1, False)
    (event,) = page.ask("corpus", {"contents": "One.\n\n Two. \n", "suffix": ".txt"})
    assert (event["texts"], event["tags"]) == (["One.", "Two."], [None, None])
    (event,) = page.ask("corpus", {"contents": "a\n" * 5001, "suffix": ".txt"})
    assert (len(event["texts"]), event["cut"]) == (5000, True)
    assert "no sentence" in page.refusal("corpus", {"contents": " \n", "suffix": ".txt"})["message"]
    assert ".conllu" in page.refusal("corpus", {"contents": "a", "suffix": ".pdf"})["message"]
    for name, start in (("mine.conllu", "mine.conllu, line 1: "), ("", "line 1: ")):
        refused = page.refusal("corpus", {"contents": broken, "suffix": ".conllu", "name": name})
        assert refused["fields"] == ["contents"]
        assert refused["message"].removeprefix("contents: ").startswith(start)
