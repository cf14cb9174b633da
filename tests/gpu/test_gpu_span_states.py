"""On a GPU: states of spans are kept there while they fit, and are those that the host keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from bertscope_service.encoders.size_limits import LIMITS
from bertscope_service.probing import states as span_states
from bertscope_service.probing.states import SpanStates

from tests.support.on_gpu import DEVICE
from tests.support.pretended_gpu.recording import watching

SHAPE, CHOSEN = (6, 2, 4), torch.tensor([4, 0, 3])


def kept(device: torch.device) -> SpanStates:
    """Returns the states of spans, standardised."""
    states = SpanStates(SHAPE, device, on_disk=False)
    states.add(np.random.default_rng(1).normal(size=SHAPE).astype(np.float32))
    if device.type != "cpu" and states.make_room():
        states.bring(slice(0, 4))
        states.bring(slice(4, 6))
        states.end_bringing()
    states.measure(slice(0, 5))
    states.standardise(5)
    states.settle(slice(0, 6))
    states.end_settling()
    return states


@pytest.mark.parametrize("fits", [True, False])
def test_states_are_read_where_they_fit(fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = replace(LIMITS["cuda"], kept_bytes=4 * 48 - (not fits))
    monkeypatch.setattr(span_states, "size_limits", lambda device: limits if device.type == "cuda" else LIMITS["cpu"])
    there, here = kept(DEVICE), kept(torch.device("cpu"))
    assert (there.values.device.type, here.values.device.type) == ("cuda" if fits else "cpu", "cpu")
    for chosen in (slice(1, 4), CHOSEN):
        torch.testing.assert_close(there.read(chosen, slice(1, 2)).cpu(), here.read(chosen, slice(1, 2)), rtol=1e-6, atol=1e-6)


@pytest.mark.usefixtures("pretended")
def test_reading_states_on_the_device_waits_for_nothing() -> None:
    states = kept(DEVICE)
    with watching() as seen:
        states.read(CHOSEN)
        states.read(slice(0, 3))
    assert not seen.waits, str(seen)
