"""The architectures that can be hosted.

To add one: declare it in the module of its kin, list it in `DECLARED`, add its tiny config to `tests/support/family.py`;
the parity tests then run on it, and the lists in the docs name it.
"""

from __future__ import annotations

from collections.abc import Mapping

import transformers

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

DECLARED: Mapping[str, type[Architecture]] = {
    "albert": Albert,
    "bert": Bert,
    "camembert": Camembert,
    "convbert": ConvBert,
    "deberta": Deberta,
    "deberta-v2": DebertaV2,
    "distilbert": DistilBert,
    "electra": Electra,
    "ernie": Ernie,
    "esm": Esm,
    "esmc": Esmc,
    "eurobert": EuroBert,
    "flaubert": Flaubert,
    "gte": Gte,
    "jina_embeddings_v3": JinaEmbeddingsV3,
    "luke": Luke,
    "megatron-bert": MegatronBert,
    "mobilebert": MobileBert,
    "modernbert": ModernBert,
    "mpnet": MpNet,
    "nomic_bert": NomicBert,
    "rembert": RemBert,
    "roformer": RoFormer,
    "roberta-prelayernorm": RobertaPreLayerNorm,
    "roberta": Roberta,
    "roc_bert": RocBert,
    "squeezebert": SqueezeBert,
    "xlm": Xlm,
    "xlm-roberta": XlmRoberta,
    "xlm-roberta-xl": XlmRobertaXl,
    "xmod": Xmod,
}
"""The architectures by `model_type` in a checkpoint's config.json."""

ARCHITECTURES: Mapping[str, type[Architecture]] = {
    name: kind for name, kind in DECLARED.items() if kind.masked_lm in transformers.__all__
}
"""The declared ones that the installed transformers knows. It imports its code of one when a model of that is made."""

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
