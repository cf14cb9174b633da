"""Runs ONNX files written by other exporters: token ids in, the output of a head out, and no access to the layers."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bertscope_service.encoders.base import ContextWatcher, MapWatcher, Shape
from bertscope_service.encoders.edits import BatchEdits, Edits
from bertscope_service.encoders.gating import pick
from bertscope_service.encoders.onnx.foreign_graphs import HALF, GraphForm, check_sizes, read_graph
from bertscope_service.encoders.onnx.foreign_heads import ForeignHead, head_of_graph
from bertscope_service.encoders.onnx.gpu_operators import check_operators
from bertscope_service.encoders.onnx.helper_process import helper
from bertscope_service.encoders.onnx.sessions import Session, SessionSettings
from bertscope_service.encoders.placement import place_rows
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import State
from bertscope_service.errors import FailedPrecondition

logger = logging.getLogger(__name__)

TRIAL_SECONDS = 60.0
TRIAL_BYTES_PER_SECOND = 20e6
"""Time limit for a graph to be read and optimised, and to answer `EXAMPLE`: a minimum in seconds, and more by its size. All
hosted models take less than a tenth of it."""

BEHIND_PADDING = (
    *("camembert", "data2vec-text", "esm", "ibert", "lilt", "longformer", "luke", "markuplm", "mluke", "mpnet", "xmod"),
)
"""Architectures, beside RoBERTa's, whose positions count from behind the padding index, 1 if a config has none."""


class ForeignOnnxEncoder:
    """A graph with `INPUTS` -> what its `ForeignHead` says, of each text or token.

    `State.hidden` holds the graph's inputs, [rows, length, 2], until it has run, then its output.

    A graph may mix the texts of a batch: one in 8 bits that takes one scale for a whole tensor gives a text another answer
    beside others. Such a graph runs `alone`, one text at a time without padding.
    """

    runtime = "onnx"
    dtype = torch.float32
    reads_first = False

    def __init__(
        self, session: Session, shape: Shape, head: ForeignHead, settings: SessionSettings, form: GraphForm, *, alone: bool
    ) -> None:
        self.shape = shape
        self.capabilities = replace(head.capabilities, runs_alone=alone)
        self.device = settings.device
        self.precision = form.precision or ("tf32" if settings.tf32 else "fp32")
        self.resident_bytes = form.size
        self._session = session
        self._head = head

    @classmethod
    def load(
        cls,
        file: Path,
        config: Mapping[str, Any],
        settings: SessionSettings,
        check: Callable[[], None] = lambda: None,
        *,
        mixed_batches: bool = False,
    ) -> ForeignOnnxEncoder:
        """Loads a graph; `config` is the model's config.json. Blocks for seconds; `check` is called several times a second and
        may raise, to cancel it. `mixed_batches`: runs texts together even if the graph mixes them.

        Raises FailedPrecondition for a file that can't be read, a graph of another form, or one that crashes, takes too much
        memory or does not end, Unsupported for a graph in 8 bits on a GPU.
        """
        model = read_graph(file)
        check_operators([model], settings.device, file)
        check_sizes(file, model)
        form = GraphForm.of(file, model)
        vocabulary = _number(file, config, "vocab_size")
        # First optimised and run in another process, where it can do no harm.
        request = {
            "file": str(file.absolute()),
            "threads": settings.threads,
            "optimisation": settings.optimisation,
            "vocabulary": vocabulary,
            "half": form.precision == HALF,
        }
        found = helper.call("try", request, check=check, seconds=TRIAL_SECONDS + form.size / TRIAL_BYTES_PER_SECOND)
        session = Session(file, settings, bounded=True)
        hidden_size = _number(file, config, "hidden_size", "dim", "n_embd")
        head = head_of_graph(file, config, found["outputs"], vocabulary, hidden_size)
        session.check_outputs(head.outputs)
        parameters = sum(math.prod(tensor.dims) for tensor in model.graph.initializer)
        shape = shape_of(file, config, head, parameters, reads_segments="token_type_ids" in session.inputs)
        mixes = form.mixes or bool(found["mixes"])
        if mixes:
            how = "batches all the same, as set" if mixed_batches else "each by itself"
            logger.warning("%s mixes the texts of a batch: an answer depends on those beside it; it runs them %s", file, how)
        return cls(session, shape, head, settings, form, alone=mixes and not mixed_batches)

    def begin(self, sequences: Sequence[TokenSequence]) -> State:
        ids, segments, lengths, valid = place_rows(sequences, self.device)
        return State(torch.stack((ids, segments), dim=-1), lengths, valid)

    def place_edits(self, edits: Sequence[Edits | None]) -> BatchEdits | None:
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
        if stop == self.shape.layers and state.layer < stop:
            found = self._run_rows(state) if self.capabilities.runs_alone else self._run(state.hidden, state.valid)
            state.hidden = pick(found, only) if self._head.by_token else found[:, None]
        state.layer = stop

    def _run_rows(self, state: State) -> torch.Tensor:
        """Runs each text by itself, without padding."""
        rows, length = state.hidden.shape[:2]
        size = self._head.width * len(self._head.outputs)
        shape = (rows, length, size) if self._head.by_token else (rows, size)
        found = torch.zeros(shape, dtype=self.dtype, device=self.device)
        for row, own in enumerate(state.lengths):
            scores = self._run(state.hidden[row : row + 1, :own], None)[0]
            if self._head.by_token:
                found[row, :own] = scores
            else:
                found[row] = scores
        return found

    def _run(self, hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        """Returns the outputs side by side, [rows, length, numbers], or [rows, numbers] of whole texts."""
        rows, length = hidden.shape[:2]
        valid = torch.ones((rows, length), dtype=torch.bool, device=hidden.device) if valid is None else valid
        feeds = {
            "input_ids": hidden[..., 0],
            "token_type_ids": hidden[..., 1],
            "attention_mask": valid.to(hidden.device, torch.int64),
        }
        head = self._head
        # Those of an answer are [rows, length], with no dimension for the one number.
        shape = (rows, length) if len(head.outputs) > 1 else (rows, length, head.width) if head.by_token else (rows, head.width)
        found = self._session.run(feeds, dict.fromkeys(head.outputs, shape))
        return torch.stack(list(found.values()), dim=-1) if len(found) > 1 else found[head.outputs[0]]

    def attend(self, state: State) -> None:
        """Does nothing: such a graph can't be computed in parts."""

    def logits(self, state: State, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return state.hidden[rows, positions]

    def classify(self, state: State) -> torch.Tensor:
        return state.hidden[:, 0]

    def label_tokens(self, state: State) -> torch.Tensor:
        return state.hidden

    def answer(self, state: State) -> torch.Tensor:
        return state.hidden


def shape_of(file: Path, config: Mapping[str, Any], head: ForeignHead, parameters: int, *, reads_segments: bool) -> Shape:
    """Returns the dimensions of a graph from its config.json, whatever its architecture calls them. Raises
    FailedPrecondition."""
    kind = str(config.get("model_type", "unknown"))
    longest = _number(file, config, "max_position_embeddings", "n_positions")
    if "roberta" in kind or kind in BEHIND_PADDING:
        padding = config.get("pad_token_id")
        longest -= (padding if isinstance(padding, int) else 1) + 1
    return Shape(
        architecture=kind,
        layers=_number(file, config, "num_hidden_layers", "n_layers", "n_layer"),
        heads=_number(file, config, "num_attention_heads", "n_heads", "n_head"),
        hidden_size=_number(file, config, "hidden_size", "dim", "n_embd"),
        vocabulary_size=_number(file, config, "vocab_size"),
        max_tokens=longest,
        parameters=parameters,
        labels=head.labels,
        head_labels=head.head_labels,
        segments=_segments(config) if reads_segments else 1,
    )


def _number(file: Path, config: Mapping[str, Any], *names: str) -> int:
    """Returns the first of some numbers that a config.json has."""
    found = next((config[name] for name in names if isinstance(config.get(name), int)), 0)
    if found < 1:
        message = f"the config.json of {file} has no {names[0]}; add it"
        raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=file)
    return int(found)


def _segments(config: Mapping[str, Any]) -> int:
    """Returns the number of segments in a config.json; BERT's two if it has none."""
    found = config.get("type_vocab_size")
    return max(1, found) if isinstance(found, int) else 2
