"""TrainCodes through gRPC: its scores, found again from the codes by plain numpy and transformers, and training beside a plain
PyTorch loop."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import pytest
import torch
from bertscope.questions.representations.codes import CodesAssembler
from bertscope.v1 import representation_codes_pb2 as codes
from bertscope.v1.common_pb2 import HeadIntervention, TextInput
from bertscope_service.probing.codes import BATCH, REVIVED_SHARE, CodesSize, CodesTraining
from bertscope_workbench.command.app import run
from numpy.typing import NDArray

from tests.support.harness import Host
from tests.support.hooked import STATE, Hooked
from tests.support.limits import limit_sizes
from tests.support.patience import granted
from tests.support.reference import Subject

WORDS = ["cat", "mat", "dog", "the", "a", "on", "of", "in"]
LAYER = 2


def texts(count: int, seed: int) -> list[TextInput]:
    generator = np.random.default_rng(seed)
    return [TextInput(text=" ".join(generator.choice(WORDS, size=8))) for _ in range(count)]


TRAIN, DEV = texts(40, 1), texts(6, 2)


def request(**fields: Any) -> codes.TrainCodesRequest:
    asked = {"train": TRAIN, "dev": DEV, "layer": LAYER, "codes": 24, "active": 4, "epochs": 30, "weights": True}
    return codes.TrainCodesRequest(**asked | fields)


def train(host: Host, **fields: Any) -> tuple[codes.TrainCodesReport, bertscope.SparseCodes]:
    """The report, and the codes as the client reads them."""
    events = list(host.representation.TrainCodes(request(**fields), timeout=granted(60)))
    (report,) = (event.report for event in events if event.HasField("report"))
    assembler = CodesAssembler()
    *_, found = map(assembler.add, events)
    assert isinstance(found, bertscope.SparseCodes)
    return report, found


@pytest.fixture(scope="module")
def subject(checkpoints: dict[str, Path]) -> Subject:
    return Subject("bert", checkpoints["bert"])


@pytest.fixture(scope="module")
def hooked(subject: Subject) -> Hooked:
    return Hooked(subject.reference)


def states(host: Host, given: list[TextInput]) -> NDArray[np.float32]:
    """The states of all pieces but special tokens, [pieces, hidden]."""
    with bertscope.Client(host.target) as client:
        read = list(client.extract_hidden_states([one.text for one in given], layers=[LAYER]))
        return np.concatenate([one.states[0, 1:-1] for one in read])


def test_scores_are_those_of_the_codes_that_are_sent(host: Host) -> None:
    report, found = train(host, mask_rate=0)
    train_states, dev = states(host, TRAIN), states(host, DEV)
    assert (report.train.pieces, report.dev.pieces, len(found)) == (len(train_states), len(dev), 24)
    np.testing.assert_allclose(found.mean, train_states.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found.decoder, axis=1), 1, atol=1e-5)
    z = (dev - found.mean) @ found.encoder.T + found.biases
    active = z * (z > report.threshold)
    error = dev - found.mean - active @ found.decoder
    explained = 1 - np.square(error).sum() / np.square(dev - found.mean).sum()
    assert report.explained == pytest.approx(explained, abs=1e-4)
    assert report.mean_active == pytest.approx((active > 0).sum(axis=1).mean(), abs=0.05)
    used = (found.encode(train_states) > 0).any(axis=0)
    assert report.dead == 24 - used.sum()
    np.testing.assert_allclose(found.decode(found.encode(dev)), dev - error, atol=1e-5)
    assert report.explained > 0.3
    assert not report.HasField("losses")


@pytest.mark.slow
def test_losses_are_those_of_transformers(host: Host, subject: Subject, hooked: Hooked) -> None:
    """Where every piece is masked: by hooks that put codes, the mean and zeros in place of states."""
    report, found = train(host, mask_rate=1)
    mask = subject.tokenizer.mask_id
    assert mask is not None

    def coded(x: torch.Tensor) -> torch.Tensor:
        return torch.tensor(found.decode(found.encode(x.numpy())))

    edits = {
        "loss": lambda x: x,
        "coded": coded,
        "mean": lambda x: torch.tensor(found.mean).expand_as(x),
        "zero": torch.zeros_like,
    }
    for name, change in edits.items():
        logs = []
        for text in DEV:
            sequence = subject.tokenizer.encode(text.text).sequence
            ids = list(sequence.ids)
            masked = sequence.with_ids([ids[0], *[mask] * (len(ids) - 2), ids[-1]])

            def edit(x: torch.Tensor, change: Any = change) -> torch.Tensor:
                return torch.cat((x[:1], change(x[1:-1]), x[-1:]))

            scores = hooked.run(subject.reference.inputs([masked]), {(STATE, LAYER): edit})[0].log_softmax(dim=-1)
            logs += [float(scores[place, ids[place]]) for place in range(1, len(ids) - 1)]
        assert report.losses.pieces == len(logs)
        assert getattr(report.losses, name) == pytest.approx(-np.mean(logs), abs=1e-4), name


@pytest.mark.parametrize("part", [BATCH, 20])
def test_training_equals_a_plain_loop(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of torch.optim.Adam over autograd; where codes compete over a whole batch, and over parts of it."""
    hidden, count, active, rate, steps = 6, 40, 1, 0.01, 12
    limit_sizes(monkeypatch, vocabulary_products=part * hidden * count)
    monkeypatch.setattr("bertscope_service.probing.codes.SILENT_PIECES", 30)
    drawn = torch.Generator().manual_seed(3)
    data = torch.randn((60, hidden), generator=drawn)
    ours = CodesTraining(CodesSize(hidden, count, active), rate, steps, seed=0)
    encoder, decoder = (torch.nn.Parameter(values.detach().clone()) for values in (ours.encoder, ours.decoder))
    biases, silent = torch.nn.Parameter(torch.zeros(count)), torch.zeros(count)
    adam = torch.optim.Adam([encoder, biases, decoder])
    revived = 0
    for step in range(steps):
        for own in ours.size.parts(torch.arange(60)):
            ours.accumulate(data[own], 60)
        ours.update()
        loss = torch.zeros(())
        for x in data.split(min(part, 60)):
            z = torch.relu(x @ encoder.T + biases)
            least = z.flatten().sort(descending=True).values[len(x) * active - 1]
            kept = z * (z >= least)
            error = x - kept @ decoder
            loss = loss + error.square().sum()
            rest = silent > 30
            if rest.any():
                revived += 1
                best = (z * rest).topk(min(int(rest.sum()), hidden // 2), dim=1)
                again = torch.zeros_like(z).scatter(1, best.indices, best.values)
                loss = loss + REVIVED_SHARE * (error.detach() - again @ decoder).square().sum()
            silent = torch.where((kept > 0).any(dim=0), 0, silent + len(x))
        adam.zero_grad()
        (loss / 60).backward()
        with torch.no_grad():
            along = (decoder.grad * decoder).sum(dim=1, keepdim=True)
            decoder.grad -= along * decoder
            adam.param_groups[0]["lr"] = rate * min(1, (steps - step) / (0.2 * steps))
            adam.step()
            decoder /= decoder.norm(dim=1, keepdim=True)
    assert revived
    for mine, plain in ((ours.encoder, encoder), (ours.biases, biases), (ours.decoder, decoder)):
        np.testing.assert_allclose(mine.detach(), plain.detach(), atol=1e-4)


def test_masks_are_drawn_and_dev_texts_split_off(host: Host) -> None:
    report, _ = train(host, seed=3, epochs=2, dev=[])
    assert (report.dev.texts, report.train.texts) == (4, 36)
    assert 0 < report.train.masked_pieces < report.train.pieces / 2


def test_interventions_change_what_is_coded(host: Host) -> None:
    """The states that are coded and the losses, those with codes in place too."""
    plain, _ = train(host, epochs=2)
    silent = [HeadIntervention(layer=layer, mode=HeadIntervention.MODE_ZERO) for layer in (0, 3)]
    changed, _ = train(host, epochs=2, interventions=silent)
    for name in ("loss", "coded", "mean", "zero"):
        assert getattr(plain.losses, name) != getattr(changed.losses, name)
    assert plain.explained != changed.explained


@pytest.fixture(scope="module")
def trained(host: Host) -> bertscope.SparseCodes:
    return train(host, epochs=5)[1]


def test_the_client_keeps_codes_and_changes_them(
    host: Host, client: bertscope.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a file, by the call and by the command: without a code, states lack what it gave; without all, and with them
    alone, what they explain."""
    heard: list[bertscope.TrainCodesProgress] = []
    given, file = [text.text for text in TRAIN], tmp_path / "kept.safetensors"
    asked: dict[str, Any] = {"layer": LAYER, "codes": 24, "active": 4, "epochs": 3, "on_progress": heard.append}
    client.train_codes(given, dev=[text.text for text in DEV], **asked).save(file)
    kept = bertscope.SparseCodes.load(file)
    assert (heard[0].stage, heard[-1].stage, kept.layer, len(kept)) == ("states", "states", LAYER, 24)
    assert any(one.stage == "training" and one.done == one.total == 3 for one in heard)
    assert kept.fit is not None
    assert kept.fit.losses is not None

    def read(*changes: bertscope.SiteIntervention) -> NDArray[np.float32]:
        (found,) = client.extract_hidden_states([given[0]], layers=[LAYER], interventions=changes)
        return found.states[0].astype(np.float32)

    plain = read()
    active = kept.encode(plain[1:-1])
    number = int(active.sum(axis=0).argmax())
    less = active[:, [number]] @ kept.decoder[[number]]
    assert np.abs(less).max() > 1e-2
    np.testing.assert_allclose(read(kept.change(number, factor=0))[1:-1], plain[1:-1] - less, atol=1e-4)
    np.testing.assert_allclose(read(kept.change([number], factor=3))[1:-1], plain[1:-1] + 2 * less, atol=1e-4)
    np.testing.assert_allclose(read(kept.reconstruct())[1:-1], kept.decode(active), atol=1e-4)
    np.testing.assert_array_equal(read(kept.reconstruct())[[0, -1]], plain[[0, -1]])
    expected = client.fill_mask("the [MASK] sat", interventions=kept.change(number, factor=0))[0]
    monkeypatch.setenv("BERTSCOPE_TARGET", host.target)
    arguments = ["fill", "the [MASK] sat", "--json", "--codes", str(file)]
    assert run([*arguments, "--scale-site", f"code:{LAYER}:{number}=0"]) == 0
    assert f"{expected.masks[0].predictions[0].probability:.6f}"[:6] in capsys.readouterr().out
    assert run([*arguments, "--scale-site", f"code:{LAYER + 1}:{number}=0"]) != 0
    assert f"are of state {LAYER}" in capsys.readouterr().err
    assert run([*arguments, "--codes-alone"]) == 0
    assert run(["fill", "the [MASK] sat", "--codes-alone"]) != 0
    capsys.readouterr()
    assert run(["codes", str(file), "--json"]) == 0
    assert f'"mean_active": {kept.fit.mean_active}' in capsys.readouterr().out


SITTING, CAT = "the [MASK] sat on a mat", bertscope.Answer("cat", scale="probability")


def probability(client: bertscope.Client, *changes: bertscope.SiteIntervention) -> float:
    """That of the answer."""
    (found,) = client.fill_mask(SITTING, candidates=["cat"], interventions=changes)
    return found.masks[0].predictions[0].probability


def test_a_sweep_changes_each_code_alone(client: bertscope.Client, trained: bertscope.SparseCodes) -> None:
    """What it measures is what a cloze says without the code; some of the codes alone, likewise."""
    asked: dict[str, Any] = {"layers": [LAYER], "positions": "together", "change": trained.change(factor=0).change}

    def sweep(**units: Any) -> dict[int, float]:
        with client.sweep_sites(SITTING, None, CAT, each_unit=True, **asked, **units) as running:
            rows = running.table().to_pandas()
        return dict(zip(rows["unit"].tolist(), rows["difference"].tolist(), strict=True))

    effects, plain = sweep(), probability(client)
    alone = {code: trained.change(code, factor=0, positions="all") for code in range(len(trained))}
    assert effects == pytest.approx({code: probability(client, change) - plain for code, change in alone.items()}, abs=1e-5)
    assert max(map(abs, effects.values())) > 1e-4
    assert sweep(units=[5, 2]) == pytest.approx({number: effects[number] for number in (5, 2)}, abs=1e-6)
    with pytest.raises(bertscope.InvalidArgument, match="code 24"):
        sweep(units=[24])


@pytest.mark.parametrize("layer", [0, LAYER])
def test_a_number_is_attributed_to_codes(client: bertscope.Client, trained: bertscope.SparseCodes, layer: int) -> None:
    """The line ends where all codes are silenced; a gradient is the difference that a little more of a code makes."""
    codes = replace(trained, layer=layer, thresholds=np.zeros(24, np.float32))

    def scaled(factor: float, *units: int) -> float:
        return probability(client, codes.change(*units, factor=factor, positions="masks"))

    (line,) = client.find_neurons(SITTING, CAT, site=codes, top=100, tolerance=0.001)
    assert (line.site, line.layers) == ("codes", (layer,))
    assert line.value == pytest.approx(probability(client), abs=1e-6)
    assert line.layer_values_absent[0] == pytest.approx(scaled(0), abs=1e-6)
    assert line.layer_sums[0] == pytest.approx(line.value - line.layer_values_absent[0], rel=0.02)
    (slope,) = client.find_neurons(SITTING, CAT, site=codes, top=100, method="gradient")
    assert {one.position for one in slope.units} == {2}
    for one in slope.units[:4]:
        difference = scaled(1.05, one.unit) - scaled(0.95, one.unit)
        assert one.value == pytest.approx(difference / 0.1, rel=0.02, abs=1e-6)
    assert abs(slope.units[0].value) > 1e-4
    with pytest.raises(bertscope.InvalidArgument, match="layers"):
        client.find_neurons(SITTING, CAT, site=codes, layers=[1])
    with pytest.raises(bertscope.InvalidArgument, match=r"SparseCodes\.change"):
        line.changes(0)
