"""The sparse codes that ship are those of the model that ships, and explain its states."""

from pathlib import Path

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest

TEXTS = workbench.read_texts(Path(__file__).resolve().parents[2] / "examples" / "sentences.txt")


@pytest.mark.slow
def test_embedded_codes_explain_the_embedded_model(target: str) -> None:
    codes = workbench.embedded_codes()
    with bertscope.Client(target) as client:
        read = list(client.extract_hidden_states(TEXTS, layers=[codes.layer]))
        states = np.concatenate([one.states[0, 1:-1] for one in read])
        losses = []
        for changes in ([], [codes.reconstruct()], [bertscope.scale_site(codes.layer, site="state", factor=0)]):
            scores = client.score_texts(TEXTS, interventions=changes)
            losses.append(-sum(one.log_likelihood for one in scores) / sum(one.scored_pieces for one in scores))
    assert codes.weights_digest == read[0].provenance.weights_digest
    active = codes.encode(states)
    error = codes.decode(active) - states
    assert 1 - np.square(error).sum() / np.square(states - codes.mean).sum() > 0.75
    assert 20 < (active > 0).sum(axis=1).mean() < 45
    plain, coded, zero = losses
    assert (zero - coded) / (zero - plain) > 0.9
    assert codes.fit is not None
    assert codes.fit.losses is not None
    assert codes.fit.losses.recovered > 0.95
