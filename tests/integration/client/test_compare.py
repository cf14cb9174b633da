"""`compare_attention` and `bertscope attention --compare`: any number of texts, one comparison, the same as of one call."""

import bertscope
import numpy as np
import pytest
from bertscope.questions.attention.description import STATISTICS

from tests.support.harness import Host

TEXTS = ["The cat sat on the mat.", "Dogs bark, cats do not.", "Nobody waited.", ("A pair?", "Yes, a pair."), "It is late."]


def test_calls_of_a_real_server_add_up_to_one(host: Host) -> None:
    heard: list[bertscope.TextsProgress] = []
    with bertscope.Client(host.target) as client:
        whole = client.compare_attention(TEXTS, "headless", on_progress=heard.append)
        parts = [client.compare_attention([text], "headless") for text in TEXTS]
        first, second = (client.describe_attention(TEXTS, model=name) for name in ("bert", "headless"))
    merged = bertscope.AttentionComparison.merge(parts)
    assert (whole.texts, whole.tokens, whole.truncated_texts) == (merged.texts, merged.tokens, 0) == (5, first.tokens, 0)
    assert (whole.provenance.model, whole.other_provenance.model) == ("models/bert", "models/headless")
    assert list(whole.differences) == list(merged.differences) == list(STATISTICS)
    assert [event.done for event in heard] == [5]
    np.testing.assert_allclose(whole.cosine.mean(), merged.cosine.mean(), rtol=0, atol=1e-5)
    np.testing.assert_allclose(whole.divergence.standard_error(), merged.divergence.standard_error(), rtol=0, atol=1e-5)
    for name in STATISTICS:
        np.testing.assert_allclose(whole.difference(name), second.mean(name) - first.mean(name), rtol=0, atol=1e-5)
    with pytest.raises(KeyError, match="no text has the statistic 'other_text'"):
        parts[0].difference("other_text")
    sizes = f"4 x 4 heads, 5 texts, {first.tokens} tokens"
    assert repr(whole).splitlines()[0] == f"<AttentionComparison: {sizes}, models/bert and models/headless>"
