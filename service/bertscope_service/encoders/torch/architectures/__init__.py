"""The architectures that can be hosted.

To add one: declare it in the module of its kin, list it in `ARCHITECTURES`, add its tiny config to `tests/support/family.py`;
the parity tests then run on it, and the lists in the docs name it.
"""

from __future__ import annotations

from bertscope_service.encoders.torch.architectures.architecture import Architecture
from bertscope_service.encoders.torch.architectures.bert import (
    Albert,
    Bert,
    DistilBert,
    Electra,
    Ernie,
    MobileBert,
    RocBert,
)
from bertscope_service.encoders.torch.architectures.others import (
    ConvBert,
    Flaubert,
    Luke,
    MegatronBert,
    RemBert,
    RoFormer,
    SqueezeBert,
    Xlm,
)
from bertscope_service.encoders.torch.architectures.proteins import Esm, Esmc
from bertscope_service.encoders.torch.architectures.relative import Deberta, DebertaV2, MpNet
from bertscope_service.encoders.torch.architectures.roberta import (
    Camembert,
    Roberta,
    RobertaPreLayerNorm,
    XlmRoberta,
    XlmRobertaXl,
    Xmod,
)
from bertscope_service.encoders.torch.architectures.rotary import EuroBert, Gte, JinaEmbeddingsV3, ModernBert, NomicBert

DECLARED: tuple[type[Architecture], ...] = (
    Albert,
    Bert,
    Camembert,
    ConvBert,
    Deberta,
    DebertaV2,
    DistilBert,
    Electra,
    Ernie,
    Esm,
    Esmc,
    EuroBert,
    Flaubert,
    Gte,
    JinaEmbeddingsV3,
    Luke,
    MegatronBert,
    MobileBert,
    ModernBert,
    MpNet,
    NomicBert,
    RemBert,
    RoFormer,
    RobertaPreLayerNorm,
    Roberta,
    RocBert,
    SqueezeBert,
    Xlm,
    XlmRoberta,
    XlmRobertaXl,
    Xmod,
)

ARCHITECTURES: dict[str, type[Architecture]] = {
    kind.masked_lm.config_class.model_type: kind for kind in DECLARED if kind.masked_lm is not None
}
"""Architectures by `model_type` in a checkpoint's config.json; without those that the installed transformers does not know."""

NO_MAPS = {
    "big_bird": "its attention is sparse and random, so that no layer has a whole map",
    "fnet": "it has no attention: Fourier transforms mix its tokens",
    "longformer": "its attention is sparse, and computed in windows that have no map of the whole text",
    "nystromformer": "it computes attention by way of some landmarks, and never has its maps",
    "reformer": "its attention is hashed, and computed in chunks that have no map of the whole text",
}
"""Reasons why some encoders that people know are not hosted, by `model_type`."""

PRE_NORM = frozenset(name for name, kind in ARCHITECTURES.items() if kind.last_norm is not None)
"""Architectures whose layers end without a normalisation; one follows behind the last."""
