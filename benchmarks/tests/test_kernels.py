"""What a run says of the kernels that its libraries chose."""

import platform

import pytest
from bertscope_service.encoders.torch.integer_products import X86

from tools.capped import capped
from tools.capped_tests import LIMITS

pytestmark = pytest.mark.slow


@pytest.mark.skipif(platform.machine() not in X86, reason="these limits are of x86 CPUs")
def test_limits_are_seen() -> None:
    of_torch, _, of_numpy = capped(
        "from benchmarks.lib.kernels import kernels\nprint(*kernels(), sep='\\n')", LIMITS["AVX2"]
    ).splitlines()
    assert "AVX2 kernels" in of_torch and "instructions Intel AVX2," in of_torch
    assert "no VNNI" in of_torch and "packed for oneDNN in fp32;" in of_torch
    assert "openblas" not in of_numpy or "Haswell" in of_numpy
