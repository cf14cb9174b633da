"""Mean contexts are those of transformers, averaged over all tokens of all texts."""

import numpy as np
import pytest
from bertscope_service.ablation.mean_contexts import mean_contexts
from bertscope_service.engine.bulk import BulkRunner

from tests.support.hosted import Hosted, running
from tests.support.rounding import BOTH_SIDES

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("batch_tokens", [16, 1024])
@pytest.mark.parametrize("hosted", ["bert", "modernbert"], indirect=True)
async def test_mean_contexts(hosted: Hosted, batch_tokens: int) -> None:
    """Not the mean of the texts' means: long texts count more."""
    sequences, reference = hosted.references, hosted.reference
    async with running(batch_tokens) as engine:
        found = await mean_contexts(hosted.encoder, sequences, BulkRunner(engine, hosted.encoder, "client", None))
    wanted = np.concatenate([reference.contexts(sequence).numpy() for sequence in sequences], axis=2).mean(axis=2)
    assert found.dtype == np.float32
    assert found.shape == wanted.shape == (hosted.encoder.shape.layers, hosted.encoder.shape.heads, wanted.shape[2])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=BOTH_SIDES)
    of_texts = np.stack([reference.contexts(sequence).numpy().mean(axis=2) for sequence in sequences]).mean(axis=0)
    assert np.abs(found - of_texts).max() > 1e-3
