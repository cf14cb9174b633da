"""Importance of the parts of a model for the masked-LM loss on texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from bertscope_service.analyses.objectives import masked_lm
from bertscope_service.analyses.objectives.masked_lm import MaskedLmObjective, MaskedLmQuery
from bertscope_service.analyses.observers.predictions import LossObserver
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.compression.working_copy import WorkingCopy
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.errors import InvalidArgument
from bertscope_service.groups import within

MASK_SHARE = 0.15
"""Share of a text's words that are masked; the usual one (Devlin et al. 2019, section 3.1)."""

BATCH_TOKENS = 256
"""Maximum number of tokens in a backward pass, or one text: the pass holds the output of every layer (bert-base: 0.3 GB)."""


def masked_lm_objective(texts: Sequence[str], tokenizer: TextTokenizer, field: str) -> MaskedLmObjective:
    """Masks some words of texts, cut to the model's length; the choice depends only on the texts.

    Raises InvalidArgument, naming `field`, for a text that has no word to mask.
    """
    try:
        return MaskedLmObjective(MaskedLmQuery(tuple(texts), 0, MASK_SHARE, truncate=True), tokenizer)
    except InvalidArgument as error:
        own, named = (error.field, error.field.replace(masked_lm.FIELD, field))
        raise InvalidArgument(named, error.message.replace(own, named), error.reason, **error.metadata) from error


def unit_importance(
    copy: WorkingCopy, texts: Sequence[str], outs: Sequence[torch.nn.Linear], field: str, report: Callable[[], None]
) -> list[torch.Tensor]:
    """Returns |sum over tokens of activation * its gradient of the loss|, the mean over texts: float32 [units].

    There is one array for the inputs of each given linear layer (Molchanov et al. 2017, section 2.2, with texts for images).
    `report` is called before every batch. Runs PyTorch in the calling thread.
    """
    encoder, objective = copy.encoder(), masked_lm_objective(texts, copy.tokenizer(), field)
    if encoder.architecture.model is not copy.model:
        own, copied = copy.model.modules(), encoder.architecture.model.modules()
        twins = {id(mine): theirs for mine, theirs in zip(own, copied, strict=True)}
        outs = [twins[id(out)] for out in outs]
    totals = [torch.zeros(out.in_features, dtype=torch.float32, device="cpu") for out in outs]
    order = sorted(range(objective.items), key=lambda row: len(objective.sequences[row]))
    lengths = [len(objective.sequences[row]) for row in order]
    for part in within(lengths, BATCH_TOKENS):
        report()
        rows = order[part]
        seen = _contributions(
            encoder, [objective.sequences[row] for row in rows], [objective.losses[row] for row in rows], outs
        )
        for total, contribution in zip(totals, seen, strict=True):
            total += contribution.abs().sum(dim=0)
    return [total / objective.items for total in totals]


def _contributions(
    encoder: TorchEncoder,
    sequences: Sequence[TokenSequence],
    observers: Sequence[LossObserver],
    outs: Sequence[torch.nn.Linear],
) -> list[torch.Tensor]:
    """Returns activation * gradient of each linear layer's input, summed over a text's tokens and the layer's runs: [texts,
    units] each."""
    seen: list[tuple[int, torch.Tensor]] = []

    def watch(number: int) -> Callable[[torch.nn.Module, tuple[torch.Tensor]], tuple[torch.Tensor]]:
        def hook(_: torch.nn.Module, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
            (activation,) = inputs
            # The model's weights take no gradient: it begins here.
            traced = activation if activation.requires_grad else activation.detach().requires_grad_()
            seen.append((number, traced))
            return (traced,)

        return hook

    hooks = [out.register_forward_pre_hook(watch(number)) for number, out in enumerate(outs)]
    try:
        with torch.enable_grad():
            losses = type(observers[0]).losses(encoder, encoder.begin(sequences), None, observers)
            gradients = torch.autograd.grad(losses.sum(), [activation for _, activation in seen])
    finally:
        for hook in hooks:
            hook.remove()
    found = [torch.zeros((len(sequences), out.in_features), dtype=torch.float32, device="cpu") for out in outs]
    for (number, activation), gradient in zip(seen, gradients, strict=True):
        found[number] += (activation.detach() * gradient).sum(dim=1)
    return found
