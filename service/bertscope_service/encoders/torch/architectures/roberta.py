"""RoBERTa and its kin: positions count from the padding index, and two of them are never used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from bertscope_service.encoders.gating import LayerRun
from bertscope_service.encoders.torch.architectures.architecture import Architecture, Fault


class Roberta(Architecture):
    """RoBERTa itself."""

    masked_lm = "RobertaForMaskedLM"
    base = "roberta"
    head = "lm_head"
    positions_follow_padding = True

    def head_modules(self) -> tuple[Any, Any, Any, Any]:
        head = self.model.lm_head
        return head.dense, torch.nn.functional.gelu, head.layer_norm, head.decoder

    def classify(self, hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        return self.model.classifier(hidden)


class XlmRoberta(Roberta):
    """RoBERTa in many languages."""

    masked_lm = "XLMRobertaForMaskedLM"


class Camembert(Roberta):
    """RoBERTa in French."""

    masked_lm = "CamembertForMaskedLM"


class RobertaPreLayerNorm(Roberta):
    """RoBERTa with normalisations before attention and feed-forward blocks, and one behind the last layer."""

    masked_lm = "RobertaPreLayerNormForMaskedLM"
    base = "roberta_prelayernorm"
    in_parts = False
    norm = None
    end_norm = None
    last_norm = "LayerNorm"


class XlmRobertaXl(RobertaPreLayerNorm):
    """XLM-RoBERTa-XL and XXL: likewise, and the layer holds the normalisation of what its feed-forward block reads."""

    masked_lm = "XLMRobertaXLForMaskedLM"
    base = "roberta"
    read_norm = "LayerNorm"
    last_norm = "encoder.LayerNorm"


class Xmod(Roberta):
    """X-MOD: a layer ends with an adapter of the text's language, which is the config's `default_language` for every text."""

    masked_lm = "XmodForMaskedLM"
    in_parts = False
    in_stream = False
    norm = None
    end_norm = None

    @classmethod
    def faults(cls, config: Any) -> Iterator[Fault]:
        yield from super().faults(config)
        known = list(config.languages)
        if config.default_language not in known:
            allowed = f"name the language of your texts, one of {', '.join(map(str, known[:20]))}"
            yield Fault("default_language", config.default_language, allowed)
        if config.adapter_reduction_factor > config.hidden_size:
            yield Fault("adapter_reduction_factor", config.adapter_reduction_factor, f"allowed are 1 to {config.hidden_size}")

    @property
    def norm_behind(self) -> Any:
        return self.encoder.encoder.LayerNorm if self.model.config.pre_norm else None

    def run_layer(
        self, index: int, hidden: torch.Tensor, valid: torch.Tensor | None, run: LayerRun, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        layer, mask = self.layers[index], None if valid is None else valid[:, None, None, :]
        attended, _ = layer.attention(hidden, mask, run=run)
        output = layer.output
        read = output.LayerNorm(attended) if layer.pre_norm else attended
        adapted = self.adapt(output, output.dense(layer.intermediate(read)) + attended)
        return self.ended(index, adapted if layer.pre_norm else output.LayerNorm(adapted))

    def adapt(self, output: Any, states: torch.Tensor) -> torch.Tensor:
        """Runs the adapter of the default language; transformers' own layer chooses rows by theirs, which can't be traced."""
        normed = states
        if output.adapter_layer_norm is not None:
            normed = output.adapter_layer_norm(states)
        elif output.adapter_reuse_layer_norm:
            normed = output.LayerNorm(states)
        added = output.adapter_modules[str(self.model.config.default_language)](normed)
        return added + (normed if output.ln_before_adapter else states)
