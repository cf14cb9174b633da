"""Substitutions of a protein, as the client holds them: mutations by name, tables, a heat map."""

import bertscope_workbench as workbench
import numpy as np
import pytest
from bertscope.values.results import Provenance
from bertscope.values.validation import residues_of
from bertscope_workbench.analyses.substitutions import Substitutions, checked_letters

from tests.support.stored_outputs import outcome

LOGS = np.log([[0.5, 0.2, 0.1], [0.25, 0.4, 0.6]])


@pytest.fixture
def found() -> Substitutions:
    return Substitutions(
        "MKV", "KV", LOGS, np.log([0.1, 0.2, 0.6]), Provenance("models/esm", "", "torch", "cpu", "fp32", {}, "zero_based")
    )


def test_substitutions(found: Substitutions, stored) -> None:
    mutations = "M1K", "M1K:V3K", "K2K", "M1", "K1V", "M9V", "M1W", ""
    long = Substitutions("K" * 800, "KV", np.zeros((2, 800)), np.zeros(800), found.provenance)
    stored(
        scores=[outcome(lambda mutation=mutation: found.score(mutation)) for mutation in mutations],
        shown=repr(found),
        frame=found.to_pandas(),
        figure=workbench.plot_substitutions(found),
        dark=workbench.plot_substitutions(found, dark=True),
        long=workbench.plot_substitutions(long).get_suptitle(),
        no_sequences=[
            outcome(lambda given=given: residues_of(given)) for given in ("", " ", "mkt", "MK1", "MK-V", "MÄ", "M K")
        ],
        letters=[checked_letters("VKVK"), lambda: checked_letters(["v"])],
    )
