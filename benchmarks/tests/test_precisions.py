"""Emulated products: factors that are rounded as tensor cores round them."""

import torch

from benchmarks.lib.rounding import Rounded, e4m3, tf32


def test_tf32_has_10_bits_behind_the_point() -> None:
    exact = torch.tensor([0.0, 1.0, -1.5, 1 + 2.0**-10, 2.0**127, 2.0**-126])
    assert torch.equal(tf32(exact), exact)
    assert torch.equal(
        tf32(torch.tensor([1 + 2.0**-11, -1 - 2.0**-11, 1 + 2.0**-12])), torch.tensor([1 + 2.0**-10, -1 - 2.0**-10, 1.0])
    )


def test_fp8_scales_each_row_by_its_largest_number() -> None:
    rows = torch.tensor([[448.0, 1.0, 17.0], [4.48e-3, 1e-5, 1.7e-4], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(e4m3(rows), torch.tensor([[448.0, 1.0, 16.0], [4.48e-3, 1e-5, 1.6e-4], [0.0, 0.0, 0.0]]))


def test_attention_is_pytorchs_with_other_factors() -> None:
    drawn = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, 2, 4, 5, 8, generator=drawn).unbind(0)
    # A row that is masked whole has no attention: every place sees itself.
    seen = (torch.rand(2, 1, 5, 5, generator=drawn) > 0.3) | torch.eye(5, dtype=torch.bool)
    for mask in (None, seen, torch.randn(2, 4, 5, 5, generator=drawn)):
        given = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        with Rounded(lambda factor: factor, everywhere=True):
            exact = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        with Rounded(tf32, everywhere=True):
            rounded = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        torch.testing.assert_close(exact, given)
        assert 0 < float((rounded - given).abs().nan_to_num().max()) < 1e-2
