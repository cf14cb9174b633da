"""transformers itself, run eagerly: what the encoder is compared with; and the encoder, run for the comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import State
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder
from numpy.typing import NDArray
from torch.overrides import TorchFunctionMode
from transformers import AutoModelForMaskedLM

from tests.support.family import FAMILY
from tests.support.rounding import BOTH_SIDES
from tests.support.tiny import SENTENCES


class Edit(NamedTuple):
    """What becomes of a head: its map A becomes keep * A + uniform / L, and a constant vector is added to what it reads."""

    keep: float = 0.0
    uniform: float = 0.0
    constant: NDArray[np.float32] | None = None


HeadEdits = Mapping[tuple[int, int], Edit | tuple[float, float]]
"""By layer and head."""

ZERO, UNIFORM = Edit(), Edit(uniform=1.0)
EDITS: dict[str, HeadEdits] = {
    "zero": {(1, 2): ZERO},
    "zero-first": {(0, 0): ZERO},
    "uniform": {(1, 3): UNIFORM},
    "uniform-last": {(2, 0): UNIFORM},
    "half": {(1, 1): (0.5, 0.0)},
    "negative": {(0, 3): (-2.0, 0.0)},
    "zero-layer": {(1, head): ZERO for head in range(4)},
    "uniform-layer": {(0, head): UNIFORM for head in range(4)},
    "mixed": {(0, 1): ZERO, (0, 2): UNIFORM, (1, 0): (1.5, 0.0), (2, 1): UNIFORM, (2, 3): ZERO, (2, 0): (0.25, 0.75)},
    "all-uniform": {(layer, head): UNIFORM for layer in range(3) for head in range(4)},
}
"""HeadEdits of every kind, by name."""


@dataclass
class Outputs:
    """What a batch gave: `hidden` after the embeddings and after each layer, and `maps` of each layer; padding included. Scores
    of each position if the model has a masked-LM head, and of labels if it classifies."""

    lengths: tuple[int, ...]
    hidden: list[torch.Tensor]
    maps: list[torch.Tensor]
    logits: torch.Tensor | None
    labels: torch.Tensor | None = None

    def row(self, index: int) -> list[torch.Tensor]:
        """Everything about one row's real tokens."""
        length = self.lengths[index]
        found = [hidden[index, :length] for hidden in self.hidden]
        found += [maps[index, :, :length, :length] for maps in self.maps]
        if self.logits is not None:
            found.append(self.logits[index, :length])
        return found if self.labels is None else [*found, self.labels[index]]


class Editing(TorchFunctionMode):
    """Edits the heads of one unpadded row on their way through a forward pass, whatever the architecture: their maps are what a
    softmax over [rows, heads, n, n] gives, and a product with these is what they read. Layers are counted by their calls, since
    ALBERT's has no number. `maps` are those before the edits, `edited` those after them.

    keep: [layers, heads] in place of that of the edits. blocked: the weights that a layer loses, bool [heads, n, n]; what is
    left is divided by its sum.
    """

    def __init__(
        self, edits: HeadEdits, *, keep: torch.Tensor | None = None, blocked: Mapping[int, torch.Tensor] | None = None
    ) -> None:
        super().__init__()
        self.edits = {place: Edit(*edit) for place, edit in edits.items()}
        self.keep, self.blocked = keep, blocked or {}
        self.maps: list[torch.Tensor] = []
        self.edited: list[torch.Tensor] = []
        self.values: list[torch.Tensor] = []

    @property
    def contexts(self) -> torch.Tensor:
        """A V of every head, [layers, heads, length, head_size]."""
        return torch.cat([maps @ values for maps, values in zip(self.maps, self.values, strict=True)])

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.matmul and self.edited and args[0] is self.edited[-1]:
            return self._read(args[1])
        found = func(*args, **(kwargs or {}))
        if func not in SOFTMAX or found.ndim != 4 or found.shape[-1] != found.shape[-2]:
            return found
        if args[0].dtype is torch.float64:
            found = args[0].softmax(-1)  # ModernBERT asks for float32
        layer = len(self.maps)
        if layer in self.blocked:
            left = found * ~self.blocked[layer]
            found = left / left.sum(dim=-1, keepdim=True).clamp_min(1e-30)
        self.maps.append(found)
        edited = found.clone() if self.keep is None else self.keep[layer][:, None, None] * found
        for head, edit in self._edits().items():
            kept = edited[:, head] if self.keep is not None else edit.keep * found[:, head]
            edited[:, head] = kept + edit.uniform / found.shape[-1]
        self.edited.append(edited)
        return edited

    def _read(self, values: torch.Tensor) -> torch.Tensor:
        """What the heads of a layer read: [1, heads, n, head_size]."""
        self.values.append(values)
        read = self.edited[-1] @ values
        for head, edit in self._edits().items():
            if edit.constant is not None:
                read[:, head] += torch.from_numpy(edit.constant).to(read)
        return read

    def _edits(self) -> dict[int, Edit]:
        """Those of the last layer, by head."""
        return {head: edit for (layer, head), edit in self.edits.items() if layer == len(self.maps) - 1}


SOFTMAX = (torch.nn.functional.softmax, torch.softmax, torch.Tensor.softmax)


class Reference:
    """A checkpoint as transformers loads and runs it."""

    def __init__(self, folder: Path, dtype: torch.dtype = torch.float32, kind: Any = AutoModelForMaskedLM) -> None:
        self.folder = folder
        self.model = kind.from_pretrained(folder, attn_implementation="eager", dtype=dtype).eval()
        # Where a file is mapped, weights lie wherever they do in it, and the last bit of some products depends on that.
        for tensor in (*self.model.parameters(), *self.model.buffers()):
            tensor.data = tensor.data.clone()  # aligned as those of the service, not as they lie in the file
        # XLM would add the embedding of token 0 for segment 0.
        self.takes_segments = FAMILY[self.model.config.model_type].segments
        self.padding = self.model.config.pad_token_id
        self._alone: dict[tuple[tuple[int, ...], tuple[int, ...]], Outputs] = {}

    def inputs(self, batch: Sequence[TokenSequence]) -> dict[str, torch.Tensor]:
        """A batch padded as transformers' own collator does it."""
        longest = max(map(len, batch))

        def padded(rows: Sequence[Sequence[int]], filler: int) -> torch.Tensor:
            return torch.tensor([[*row, *[filler] * (longest - len(row))] for row in rows])

        inputs = {
            "input_ids": padded([sequence.ids for sequence in batch], self.padding),
            "attention_mask": padded([[1] * len(sequence) for sequence in batch], 0),
        }
        if self.takes_segments:
            inputs["token_type_ids"] = padded([sequence.segments for sequence in batch], 0)
        return inputs

    @torch.inference_mode()
    def run(self, batch: Sequence[TokenSequence]) -> Outputs:
        output = self.model(**self.inputs(batch), output_attentions=True, output_hidden_states=True)
        lengths = tuple(map(len, batch))
        maps = list(output.attentions)
        if self.model.config.model_type == "squeezebert":
            maps = [scores.softmax(dim=-1) for scores in maps]  # the maps it returns are not normalised
        return Outputs(lengths, list(output.hidden_states), maps, output.logits)

    def alone(self, sequence: TokenSequence) -> Outputs:
        """One text, run once however often it is asked for."""
        key = tuple(sequence.ids), tuple(sequence.segments)
        if key not in self._alone:
            self._alone[key] = self.run([sequence])
        return self._alone[key]

    @torch.inference_mode()
    def run_edited(self, sequence: TokenSequence, edits: HeadEdits) -> Outputs:
        """One text whose heads are edited; the maps are those before the edits."""
        with Editing(edits) as editing:
            output = self.model(**self.inputs([sequence]), output_hidden_states=True)
        return Outputs((len(sequence),), list(output.hidden_states), editing.maps, output.logits)

    def scores(
        self, sequence: TokenSequence, edits: HeadEdits | None = None, *, keep: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Scores of one text, whose heads may be edited: [length, vocabulary] or [labels]. `keep`: as of `Editing`."""
        with torch.set_grad_enabled(keep is not None), Editing(edits or {}, keep=keep):
            scores: torch.Tensor = self.model(**self.inputs([sequence])).logits[0]
        return scores

    @torch.no_grad()
    def contexts(self, sequence: TokenSequence) -> torch.Tensor:
        """A V of every head, [layers, heads, length, head_size]."""
        with Editing({}) as editing:
            self.model(**self.inputs([sequence]))
        return editing.contexts

    def mean_contexts(self, sequences: Sequence[TokenSequence]) -> NDArray[np.float32]:
        """[layers, heads, head_size]: over all tokens of all texts."""
        contexts = np.concatenate([self.contexts(sequence).numpy() for sequence in sequences], axis=2)
        return contexts.mean(axis=2).astype(np.float32)


@dataclass
class Subject:
    """One architecture's checkpoint, by us and by transformers. The encoder's weights are not packed, so it may equal eager to
    the bit."""

    architecture: str
    folder: Path

    @cached_property
    def encoder(self) -> TorchEncoder:
        return self.load(pack=False)

    @cached_property
    def reference(self) -> Reference:
        return Reference(self.folder)

    @cached_property
    def tokenizer(self) -> TextTokenizer:
        return TextTokenizer.load(self.folder, self.encoder.shape.max_tokens)

    @cached_property
    def sequences(self) -> list[TokenSequence]:
        """Texts and pairs of mixed length, one as long as the model reads, and one of a single token."""
        encode = self.tokenizer.encode
        texts = [encode(text) for text in SENTENCES]
        pairs = [encode(SENTENCES[1], SENTENCES[0]), encode(SENTENCES[0], SENTENCES[3]), encode(SENTENCES[3], SENTENCES[5])]
        longest = encode(SENTENCES[-1] + SENTENCES[-1], truncate=True)
        assert len(longest) == self.encoder.shape.max_tokens
        first = texts[0].sequence
        alone = TokenSequence(first.ids[:1], first.segments[:1])
        return [*(text.sequence for text in (*texts, *pairs, longest)), alone]

    def load(self, *, precision: str = "fp32", pack: bool) -> TorchEncoder:
        return load(self.architecture, self.folder, precision=precision, pack=pack)

    def run(
        self,
        batch: Sequence[TokenSequence],
        gates: Sequence[Edits | None] | None = None,
        *,
        encoder: Encoder | None = None,
        watch: bool = True,
    ) -> Outputs:
        """As the function, by the subject's encoder unless another is given."""
        return run(encoder or self.encoder, batch, gates, watch=watch)

    def gates(self, edits: HeadEdits) -> Edits:
        """The same edits as gates."""
        return gates_of(self.encoder, edits)


def load(architecture: str, folder: Path, *, pack: bool = False, precision: str = "fp32") -> TorchEncoder:
    return load_encoder(folder, architecture, device=torch.device("cpu"), precision=precision, pack=pack)


@torch.inference_mode()
def run(
    encoder: Encoder, batch: Sequence[TokenSequence], gates: Sequence[Edits | None] | None = None, *, watch: bool = True
) -> Outputs:
    """The encoder layer by layer; without `watch` no maps, and another attention kernel."""
    state, placed = encoder.begin(batch), None if gates is None else encoder.place_edits(gates)
    hidden, maps = [state.hidden], list[torch.Tensor]()
    for layer in range(encoder.shape.layers):
        encoder.advance(state, layer + 1, placed, {layer: lambda seen: maps.append(seen.clone())} if watch else None)
        hidden.append(state.hidden)
    logits = all_logits(encoder, state) if encoder.capabilities.masked_lm else None
    return Outputs(state.lengths, hidden, maps, logits, encoder.classify(state) if encoder.shape.labels else None)


def gates_of(encoder: Encoder, edits: HeadEdits) -> Edits:
    """Edits of heads as the gates of a row."""
    shape = (encoder.shape.layers, encoder.shape.heads)
    constants: dict[int, NDArray[np.float32]] = {}
    gates = Edits(np.ones(shape, np.float32), np.zeros(shape, np.float32), constants)
    for (layer, head), edit in edits.items():
        keep, uniform, constant = Edit(*edit)
        gates.keep[layer, head], gates.uniform[layer, head] = keep, uniform
        if constant is not None:
            constants.setdefault(layer, np.zeros((shape[1], len(constant)), np.float32))[head] = constant
    return gates


def all_logits(encoder: Encoder, state: State) -> torch.Tensor:
    """Scores at every position: [rows, length, vocabulary]."""
    count, length = state.hidden.shape[:2]
    rows, positions = torch.arange(count).repeat_interleave(length), torch.arange(length).repeat(count)
    return encoder.logits(state, rows, positions).view(count, length, -1)


def assert_equal(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
    """Equal to the bit, tensor by tensor."""
    assert [tensor.shape for tensor in found] == [tensor.shape for tensor in expected]
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


def assert_close(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], share: float = BOTH_SIDES) -> None:
    """No value differs by more than `share` of the largest one of its tensor."""
    assert [tensor.shape for tensor in found] == [tensor.shape for tensor in expected]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=share * float(other.abs().max()))
