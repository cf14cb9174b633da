"""TrainLens through gRPC, ReadLayers with its maps, and training beside a plain PyTorch loop."""

import json
from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import pytest
import torch
from bertscope.questions.representations import tuned_lens
from bertscope.v1 import representation_lens_pb2 as lens
from bertscope.v1 import representation_tuned_lens_pb2 as tuned
from bertscope.v1.common_pb2 import TextInput
from bertscope.values.vectors import tensor
from bertscope_service.probing.tuned_lens import BATCH, LensSize, TranslatorTraining
from bertscope_workbench.command.app import run
from numpy.typing import NDArray

from tests.support.calls import call, refusal
from tests.support.harness import Host
from tests.support.limits import limit_sizes
from tests.support.patience import granted

WORDS = ["cat", "mat", "dog", "the", "a", "on", "of", "in"]
MASKED = ["the [MASK] sat on the mat", "a dog of [MASK]"]
Request = tuned.TrainLensRequest


def texts(count: int, seed: int) -> list[TextInput]:
    generator = np.random.default_rng(seed)
    return [TextInput(text=" ".join(generator.choice(WORDS, size=8))) for _ in range(count)]


TRAIN, DEV = texts(30, 1), texts(8, 2)


def request(**fields: Any) -> Request:
    return Request(**{"train": TRAIN, "dev": DEV, "max_epochs": 3} | fields)


def train(host: Host, **fields: Any) -> tuple[tuned.TrainLensReport, dict[int, NDArray[np.float32]]]:
    """The report, and the maps by layer."""
    events = list(host.representation.TrainLens(request(**fields), timeout=granted(60)))
    (report,) = (event.report for event in events if event.HasField("report"))
    data: dict[int, bytes] = {}
    for event in events:
        if event.HasField("chunk"):
            assert event.chunk.offset == len(data.get(event.chunk.layer, b""))
            data[event.chunk.layer] = data.get(event.chunk.layer, b"") + event.chunk.data
    size = report.hidden_size
    return report, {layer: np.frombuffer(own, "<f4").reshape(size + 1, size) for layer, own in data.items()}


def translators(maps: dict[int, NDArray[np.float32]]) -> list[lens.Translator]:
    return [lens.Translator(layer=layer, affine=tensor(values)) for layer, values in maps.items()]


def read(host: Host, given: list[lens.Translator], **fields: Any) -> lens.ReadLayersResponse:
    asked = {"inputs": [{"text": text} for text in MASKED], "candidates": ["the"], "translators": given}
    return call(host, "ReadLayers", **asked | fields)


def unchanging(size: int) -> NDArray[np.float32]:
    return np.vstack([np.eye(size), np.zeros(size)]).astype(np.float32)


def test_identity_maps_are_the_plain_lens(host: Host) -> None:
    plain = read(host, [])
    size = train(host, max_epochs=1)[0].hidden_size
    same = read(host, translators({layer: unchanging(size) for layer in range(4)}))
    assert same.results == plain.results
    given = translators({0: np.full((size + 1, size), np.inf)})
    failure = refusal(host, "ReadLayers", inputs=[{"text": MASKED[0]}], translators=given, layers=[0])
    assert (failure.fields, failure.info.reason) == (["translators[0].affine"], "TRANSLATOR_NOT_FINITE")


@pytest.mark.parametrize("normalisation", [lens.LENS_NORMALISATION_NONE, lens.LENS_NORMALISATION_FINAL])
def test_scores_are_what_read_layers_finds_with_the_maps(host: Host, normalisation: int) -> None:
    """Before and after, on dev texts without masks, where the lens is better than none."""
    asked: Any = {"normalisation": normalisation}
    report, maps = train(host, weights=True, mask_rate=0, **asked)
    assert report.normalisation == normalisation
    assert (report.train.masked_pieces, report.dev.texts, report.dev.pieces > 8 * 8 - 1) == (0, 8, True)
    assert list(maps) == [layer.layer for layer in report.layers] == [0, 1, 2, 3]
    layers = [0, 1, 2, 3]
    for when, given in (("before", []), ("after", translators(maps))):
        found = [getattr(layer, when).divergence for layer in report.layers]
        inputs = [lens.LensInput(text=one.text, spans=[{"start": 0, "end": len(one.text)}]) for one in DEV]
        reply = read(host, given, inputs=inputs, candidates=[], layers=layers, **asked)
        places = [place for text in reply.results for place in text.positions]
        means = np.mean([[one.divergence for one in place.layers] for place in places], axis=0)
        np.testing.assert_allclose(found, means, rtol=1e-4, atol=1e-6)
        last = read(host, [], inputs=inputs, candidates=[], layers=[4])
        right = [place.layers[0].top[0].entry.id for text in last.results for place in text.positions]
        tops = [[one.top[0].entry.id for one in place.layers] for place in places]
        agreeing = [sum(top[layer] == wanted for top, wanted in zip(tops, right, strict=True)) for layer in layers]
        assert [getattr(layer, when).agreeing for layer in report.layers] == agreeing
    for layer in report.layers:
        assert layer.after.divergence < layer.before.divergence
        assert layer.steps


@pytest.mark.parametrize("updated", [10**6, 90])
def test_training_equals_a_plain_loop(updated: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of torch.optim.Adam, one layer after another, over a head with a norm, without parts; all layers in a step, and two."""
    limit_sizes(monkeypatch, updated_values=updated)
    generator = torch.Generator().manual_seed(3)
    layers, hidden, vocabulary, pieces = 3, 6, 11, 2 * BATCH
    states = torch.randn((pieces, layers + 1, hidden), generator=generator)
    matrix = torch.randn((hidden, vocabulary), generator=generator)

    def head(given: torch.Tensor, last: bool) -> torch.Tensor:
        return torch.nn.functional.layer_norm(given, (hidden,)) @ matrix

    ours = TranslatorTraining(LensSize(layers, hidden, vocabulary), head, torch.device("cpu"), 0.01, patience=4)
    for _ in range(5):
        for batch in states.split(BATCH):
            for part in batch.split(24):
                for own in ours.size.updates():
                    ours.accumulate(torch.cat((part[:, own], part[:, -1:]), dim=1), own, len(batch))
            for own in ours.size.updates():
                ours.update(own)
    last = head(states[:, -1], True).softmax(-1)
    for layer in range(layers):
        linear = torch.nn.Linear(hidden, hidden)
        with torch.no_grad():
            linear.weight.copy_(torch.eye(hidden))
            linear.bias.zero_()
        adam = torch.optim.Adam(linear.parameters(), lr=0.01)
        for _ in range(5):
            for own, wanted in zip(states[:, layer].split(BATCH), last.split(BATCH), strict=True):
                logs = head(linear(own), False).log_softmax(-1)
                loss = torch.nn.functional.kl_div(logs, wanted, reduction="batchmean")
                adam.zero_grad()
                loss.backward()
                adam.step()
        np.testing.assert_allclose(ours.maps[layer, :-1].T, linear.weight.detach(), atol=1e-4)
        np.testing.assert_allclose(ours.maps[layer, -1], linear.bias.detach(), atol=1e-4)


def test_masks_are_drawn_and_dev_texts_split_off(host: Host) -> None:
    report, _ = train(host, seed=3, dev=[], layers=[2, 0], max_epochs=1)
    assert (report.dev.texts, report.train.texts) == (3, 27)
    assert 0 < report.train.masked_pieces < report.train.pieces / 2
    dev = train(host, mask_rate=1, max_epochs=1)[0].dev
    assert dev.masked_pieces == dev.pieces


def test_the_client_keeps_a_lens_and_reads_through_it(
    host: Host, client: bertscope.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a file, and with maps that take several calls; a rejected text is named by its place, and left out if asked."""
    heard: list[bertscope.TrainLensProgress] = []
    train_texts, dev = ([text.text for text in part] for part in (TRAIN, DEV))
    trained = client.train_lens(train_texts, dev=dev, max_epochs=2, on_progress=heard.append)
    trained.save(tmp_path / "lens")
    kept = bertscope.load_lens(tmp_path / "lens")
    assert (heard[0].stage, heard[-1].stage, heard[-1].done, heard[-1].total) == ("states", "training", 2, 2)
    assert (kept.fits, kept.layers, kept.last_layer) == (trained.fits, (0, 1, 2, 3), 4)
    assert all(fit.divergence < fit.divergence_before for fit in kept.fits)
    found = client.read_layers(MASKED, lens=kept, candidates=["the"])
    assert list(found[0].layers) == [0, 1, 2, 3, 4]
    expected = read(host, translators(dict(trained.maps)), layers=[0, 1, 2, 3, 4]).results[0].positions[0].layers
    assert found[0].positions[0].divergences().tolist() == [one.divergence for one in expected]
    assert client.read_layers(MASKED, lens=kept, layers=[1, 4])[1].layers == (1, 4)
    with pytest.raises(bertscope.InvalidArgument, match="maps of"):
        client.read_layers(MASKED, lens=kept, layers=[9])

    monkeypatch.setattr(tuned_lens, "MAPS_BYTES", 1)
    several = client.read_layers(MASKED, lens=kept, candidates=["the"])
    assert [text.layers for text in several] == [text.layers for text in found]
    for one, other in zip(several, found, strict=True):
        assert [reading.layer for reading in one.positions[0].layers] == list(found[0].layers)
        np.testing.assert_allclose(one.positions[0].divergences(), other.positions[0].divergences(), atol=1e-5)
    rejected: list[int] = []
    given = ["no mask", *MASKED, " "]
    some = client.read_layers(given, lens=kept, on_rejected=lambda index, error: rejected.append(index))
    assert ([text.text for text in some], sorted(rejected)) == (MASKED, [0, 3])
    with pytest.raises(bertscope.InvalidArgument, match=r"inputs\[2\]"):
        client.read_layers([*MASKED, "no mask"], lens=kept)


def test_the_command_trains_keeps_and_reads(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BERTSCOPE_TARGET", host.target)
    monkeypatch.chdir(tmp_path)
    for name, part in (("train", TRAIN), ("dev", DEV)):
        Path(f"{name}.txt").write_text("\n".join(text.text for text in part), encoding="utf-8")
    asked = ["lens", "train", "train.txt", "--dev", "dev.txt", "--epochs", "2", "--seed", "1", "--mask-rate", "0.3"]
    assert run([*asked, "--keep", "lens.npz", "--output", "fits.csv"]) == 0
    kept = bertscope.load_lens("lens.npz")
    rows = Path("fits.csv").read_text(encoding="utf-8").splitlines()
    assert (len(rows), rows[0].split(",")[:2]) == (1 + len(kept.fits), ["layer", "divergence_before"])
    capsys.readouterr()
    assert run(["lens", MASKED[0], "--lens", "lens.npz", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["results"]
    wanted = read(host, translators(dict(kept.maps)), layers=[0, 1, 2, 3, 4]).results[0].positions[0].layers
    divergences = [one["divergence"] for one in found["positions"][0]["layers"]]
    assert divergences == pytest.approx([one.divergence for one in wanted], abs=1e-5)
    assert run([*asked, "--keep", "missing/lens.npz"]) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert run(["lens", MASKED[0], "--lens", "fits.csv"]) != 0
    assert "fits.csv: is not a file of a tuned lens" in capsys.readouterr().err
