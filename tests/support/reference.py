"""transformers itself, run eagerly in fp32: what the encoder is compared with; and the encoder, run for the comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import State
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.loading import load_encoder
from torch.overrides import TorchFunctionMode
from transformers import AutoModelForMaskedLM

from tests.support.family import FAMILY
from tests.support.rounding import BOTH_SIDES
from tests.support.tiny import SENTENCES

HeadEdits = Mapping[tuple[int, int], tuple[float, float]]
"""(layer, head) to (keep, uniform): the head's map A becomes keep * A + uniform / L."""

ZERO, UNIFORM = (0.0, 0.0), (0.0, 1.0)
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
    """What a batch gave: `hidden` after the embeddings and after each layer, and `maps` of each layer; padding included."""

    lengths: tuple[int, ...]
    hidden: list[torch.Tensor]
    maps: list[torch.Tensor]
    logits: torch.Tensor

    def row(self, index: int) -> list[torch.Tensor]:
        """Everything about one row's real tokens."""
        length = self.lengths[index]
        maps = [maps[index, :, :length, :length] for maps in self.maps]
        return [*(hidden[index, :length] for hidden in self.hidden), *maps, self.logits[index, :length]]


class Editing(TorchFunctionMode):
    """HeadEdits the attention maps of one unpadded row on their way through a forward pass, whatever the architecture: they are
    what a softmax over [rows, heads, n, n] gives. Layers are counted by their calls, since ALBERT's has no number."""

    def __init__(self, edits: HeadEdits) -> None:
        super().__init__()
        self.edits = edits
        self.maps: list[torch.Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func not in SOFTMAX or found.ndim != 4 or found.shape[-1] != found.shape[-2]:
            return found
        edited = found.clone()
        for (layer, head), (keep, uniform) in self.edits.items():
            if layer == len(self.maps):
                edited[:, head] = keep * found[:, head] + uniform / found.shape[-1]
        self.maps.append(found)
        return edited


SOFTMAX = (torch.nn.functional.softmax, torch.softmax, torch.Tensor.softmax)


class Reference:
    """A checkpoint as transformers loads and runs it."""

    def __init__(self, folder: Path, dtype: torch.dtype = torch.float32, kind: Any = AutoModelForMaskedLM) -> None:
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
        return load_encoder(self.folder, self.architecture, device=torch.device("cpu"), precision=precision, pack=pack)

    @torch.inference_mode()
    def run(
        self,
        batch: Sequence[TokenSequence],
        gates: Sequence[Edits | None] | None = None,
        *,
        encoder: Encoder | None = None,
        watch: bool = True,
    ) -> Outputs:
        """The encoder layer by layer; without `watch` no maps, and another attention kernel."""
        encoder = encoder or self.encoder
        state, placed = encoder.begin(batch), None if gates is None else encoder.place_edits(gates)
        hidden, maps = [state.hidden], list[torch.Tensor]()
        for layer in range(encoder.shape.layers):
            encoder.advance(state, layer + 1, placed, {layer: lambda seen: maps.append(seen.clone())} if watch else None)
            hidden.append(state.hidden)
        return Outputs(state.lengths, hidden, maps, all_logits(encoder, state))

    def gates(self, edits: HeadEdits) -> Edits:
        """The same edits as gates."""
        shape = (self.encoder.shape.layers, self.encoder.shape.heads)
        gates = Edits(torch.ones(shape).numpy(), torch.zeros(shape).numpy())
        for place, (keep, uniform) in edits.items():
            gates.keep[place], gates.uniform[place] = keep, uniform
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
