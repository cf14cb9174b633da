"""Runs a bidirectional LSTM classifier as an encoder: the student of BERT in Tang et al. 2019, "Distilling Task-Specific
Knowledge from BERT into Simple Neural Networks", section 3.1.

It has no attention, so there is nothing to watch, to gate or to remove. Its one layer reads the whole text in both directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from bertscope_service.encoders.base import Capabilities, ContextWatcher, MapWatcher, Shape
from bertscope_service.encoders.edits import BatchEdits, Edits
from bertscope_service.encoders.gating import pick
from bertscope_service.encoders.placement import place_rows
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import State
from bertscope_service.encoders.torch.encoder import DTYPES
from bertscope_service.encoders.torch.random_models import fill
from bertscope_service.encoders.torch.weights import nonzero_parameters, resident_bytes
from bertscope_service.encoders.transfers import place_arrays
from bertscope_service.errors import Unsupported

MAX_TOKENS = 512
"""A limit like BERT's; the network has none."""


class Bilstm(torch.nn.Module):
    """Word embeddings, one LSTM layer in each direction, and a classifier with a hidden layer on both final states."""

    def __init__(self, vocabulary: int, embedding: int, units: int, classifier: int, labels: int) -> None:
        super().__init__()
        self.units = units
        self.words = torch.nn.Embedding(vocabulary, embedding)
        self.lstm = torch.nn.LSTM(embedding, units, batch_first=True, bidirectional=True)
        self.inner = torch.nn.Linear(2 * units, classifier)
        self.outer = torch.nn.Linear(classifier, labels)

    def read(self, embedded: torch.Tensor, lengths: Sequence[int], *, padded: bool) -> torch.Tensor:
        """Reads [rows, length, embedding] -> [rows, length, 2 * units], the forward direction first; padding is not read."""
        if not padded:
            whole: torch.Tensor = self.lstm(embedded)[0]
            return whole
        # Sorted here: from rows in any order, PyTorch makes the host wait until it has copied their places to a GPU.
        order = np.argsort(-np.array(lengths), kind="stable")
        places, back = place_arrays(embedded.device, order, np.argsort(order))
        sizes = torch.tensor(lengths, dtype=torch.int64, device="cpu")[order]
        packed = pack_padded_sequence(embedded.index_select(0, places), sizes, batch_first=True)
        output, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return output.index_select(0, back)

    def classify(self, last: torch.Tensor) -> torch.Tensor:
        """Classifies [rows, 2 * units] -> [rows, labels]."""
        scores: torch.Tensor = self.outer(torch.relu(self.inner(last)))
        return scores


def random_bilstm(vocabulary: int, embedding: int, units: int, classifier: int, labels: int) -> Bilstm:
    """Returns a network with random weights; the same arguments give the same weights."""
    module = Bilstm(vocabulary, embedding, units, classifier, labels)
    fill(module)
    return module.eval()


class BilstmEncoder:
    """The `Encoder` of such a network, run by PyTorch."""

    runtime = "torch"
    reads_first = False

    def __init__(self, module: Bilstm, *, device: torch.device, precision: str) -> None:
        """Takes ownership of the module. Raises torch.OutOfMemoryError."""
        self.device = device
        self.precision = precision
        self.dtype = DTYPES[precision]
        self.module = module.to(self.dtype).to(device)
        self.capabilities = Capabilities(classification=True, observable=False)
        self.shape = Shape(
            architecture="bilstm",
            layers=1,
            heads=0,
            hidden_size=2 * module.units,
            vocabulary_size=module.words.num_embeddings,
            max_tokens=MAX_TOKENS,
            parameters=sum(values.numel() for values in module.parameters()),
            labels=tuple(f"LABEL_{number}" for number in range(module.outer.out_features)),
            segments=1,
        )

    @property
    def resident_bytes(self) -> int:
        return resident_bytes(self.module)

    def nonzero_parameters(self) -> int:
        return nonzero_parameters(self.module)

    def begin(self, sequences: Sequence[TokenSequence]) -> State:
        ids, _, lengths, valid = place_rows(sequences, self.device)
        return State(self.module.words(ids), lengths, valid)

    def place_edits(self, edits: Sequence[Edits | None]) -> BatchEdits | None:
        if any(edits):
            raise _without_heads()
        return None

    def advance(
        self,
        state: State,
        stop: int,
        edits: BatchEdits | None = None,
        watch: Mapping[int, MapWatcher] | None = None,
        *,
        taps: Mapping[int, ContextWatcher] | None = None,
        only: torch.Tensor | None = None,
    ) -> None:
        if edits is not None or watch or taps:
            raise _without_heads()
        if state.layer < stop:
            output = self.module.read(state.hidden, state.lengths, padded=state.valid is not None)
            state.hidden = pick(output, only)
            state.layer += 1

    def attend(self, state: State) -> None:
        """Does nothing: there is no context to compute ahead."""

    def logits(self, state: State, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        raise Unsupported("a BiLSTM that classifies has no masked-LM head; use it to classify", "NO_MASKED_LM_HEAD")

    def classify(self, state: State) -> torch.Tensor:
        units = self.module.units
        (lengths,) = place_arrays(self.device, np.array(state.lengths, dtype=np.int64))
        rows = torch.arange(len(lengths), dtype=torch.int64, device=self.device)
        # Each direction has read the whole text at its own end.
        last = torch.cat([state.hidden[rows, lengths - 1, :units], state.hidden[:, 0, units:]], dim=1)
        return self.module.classify(last).float()


def _without_heads() -> Unsupported:
    message = "a BiLSTM has no attention heads to watch or to change; leave interventions out"
    return Unsupported(message, "NO_HEADS", architecture="bilstm")
