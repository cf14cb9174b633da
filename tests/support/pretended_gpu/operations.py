"""Which operations a CUDA device does without a kernel, and at which the host waits for it."""

from typing import Any

import torch

WAITS = {
    "aten._local_scalar_dense.default": "item",
    "aten._unique2.default": "unique",
    "aten.bincount.default": "bincount",
    "aten.equal.default": "equal",
    "aten.is_nonzero.default": "bool",
    "aten.linalg_cholesky_ex.default": "cholesky",
    "aten.masked_select.default": "masked_select",
    "aten.nonzero.default": "nonzero",
    "aten.repeat_interleave.Tensor": "repeat_interleave",
    "aten.unique_consecutive.default": "unique",
    "aten.unique_dim.default": "unique",
}
"""Operations whose result, or its size, the host needs."""

INDEXING = {
    "aten._index_put_impl_.default",
    "aten._unsafe_index.Tensor",
    "aten.index.Tensor",
    "aten.index_put.default",
    "aten.index_put_.default",
}
"""Operations that take indices from the host, by a blocking copy, and masks, whose size the host waits for."""

WITHOUT_KERNEL = {
    "aten._local_scalar_dense.default",
    "aten._unsafe_view.default",
    "aten.alias.default",
    "aten.detach.default",
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.empty_strided.default",
    "aten.lift_fresh.default",
    "aten.new_empty.default",
    "aten.new_empty_strided.default",
    "aten.set_.source_Storage",
}

WHOLE = {
    "aten.cross_entropy_loss.default",
    "aten.embedding.default",
    "aten.layer_norm.default",
    "aten.linear.default",
    "aten.log_softmax.int",
    "aten.scaled_dot_product_attention.default",
    "aten.softmax.int",
}
"""Operations that PyTorch writes as several, but that a GPU has a kernel for."""


def splits(function: Any) -> bool:
    """Returns whether an operation is done as several others."""
    return str(function) not in WHOLE and torch._C._dispatch_has_kernel_for_dispatch_key(
        function.name(), "CompositeImplicitAutograd"
    )


def is_view(function: Any) -> bool:
    """Returns whether an operation's result shares the memory of an argument."""
    return any(each.alias_info is not None and not each.alias_info.is_write for each in function._schema.returns)


def has_kernel(function: Any) -> bool:
    """Returns whether an operation starts a kernel."""
    return str(function) not in WITHOUT_KERNEL and not is_view(function)
