"""Runs ONNX files written by other exporters: token ids in, logits out, and no access to the layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import torch

from bertscope_service.encoders.base import Capabilities, ContextWatcher, MapWatcher, Shape
from bertscope_service.encoders.edits import BatchEdits, Edits
from bertscope_service.encoders.gating import pick
from bertscope_service.encoders.onnx.gpu_operators import check_operators
from bertscope_service.encoders.onnx.helper_process import helper
from bertscope_service.encoders.onnx.parts import tensors_of
from bertscope_service.encoders.onnx.sessions import Session, SessionSettings, unreadable
from bertscope_service.encoders.placement import place_rows
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.state import State
from bertscope_service.errors import FailedPrecondition

INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
"""The inputs that such a graph may have; it must have the first two."""

OUTPUT = "logits"

EXAMPLE = (2, 3)
"""Texts and tokens of a trial run that shows the shape of a graph's output, which a file need not declare."""

TRIAL_SECONDS = 60.0
TRIAL_BYTES_PER_SECOND = 20e6
"""Time limit for a graph to be read and optimised, and to answer `EXAMPLE`: a minimum in seconds, and more by its size. All
hosted models take less than a tenth of it."""

BEHIND_PADDING = ("camembert", "longformer", "mpnet")
"""Architectures, beside RoBERTa's, whose positions count from behind the padding index, 1 if a config has none."""


class ForeignOnnxEncoder:
    """A graph with `INPUTS` -> logits, [rows, length, vocabulary] of a masked-LM or [rows, labels] of a classifier.

    `State.hidden` holds the graph's inputs, [rows, length, 2], until it has run, then its output.
    """

    runtime = "onnx"
    dtype = torch.float32
    reads_first = False

    def __init__(self, session: Session, shape: Shape, settings: SessionSettings, resident_bytes: int) -> None:
        self.shape = shape
        labels = bool(shape.labels)
        self.capabilities = Capabilities(masked_lm=not labels, classification=labels, observable=False, hidden_states=False)
        self.device = settings.device
        self.precision = "tf32" if settings.tf32 else "fp32"
        self.resident_bytes = resident_bytes
        self._session = session

    @classmethod
    def load(
        cls, file: Path, config: Mapping[str, Any], settings: SessionSettings, check: Callable[[], None] = lambda: None
    ) -> ForeignOnnxEncoder:
        """Loads a graph; `config` is the model's config.json. Blocks for seconds; `check` is called several times a second and
        may raise, to cancel it.

        Raises FailedPrecondition for a file that can't be read, a graph of another form, or one that crashes, takes too much
        memory or does not end, Unsupported for a graph in 8 bits on a GPU.
        """
        model = _read(file)
        check_operators([model], settings.device, file)
        graph, files = model.graph, _files_of(file, model)
        size = sum(path.stat().st_size for path in files)
        # First optimised and run in another process, where it can do no harm.
        request = {"file": str(file.absolute()), "threads": settings.threads, "optimisation": settings.optimisation}
        found = helper.call("try", request, check=check, seconds=TRIAL_SECONDS + size / TRIAL_BYTES_PER_SECOND)
        session = Session(file, settings, bounded=True)
        parameters = sum(math.prod(tensor.dims) for tensor in graph.initializer)
        shape = shape_of(file, config, found, parameters, reads_segments="token_type_ids" in session.inputs)
        return cls(session, shape, settings, size)

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
        rows, length = state.hidden.shape[:2]
        if stop == self.shape.layers and state.layer < stop:
            valid = (
                torch.ones((rows, length), dtype=torch.bool, device=state.hidden.device) if state.valid is None else state.valid
            )
            feeds = {
                "input_ids": state.hidden[..., 0],
                "token_type_ids": state.hidden[..., 1],
                "attention_mask": valid.to(state.hidden.device, torch.int64),
            }
            if self.shape.labels:
                scores = self._session.run(feeds, {OUTPUT: (rows, len(self.shape.labels))})[OUTPUT]
                state.hidden = scores[:, None]
            else:
                scores = self._session.run(feeds, {OUTPUT: (rows, length, self.shape.vocabulary_size)})[OUTPUT]
                state.hidden = pick(scores, only)
        state.layer = stop

    def attend(self, state: State) -> None:
        """Does nothing: such a graph can't be computed in parts."""

    def logits(self, state: State, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return state.hidden[rows, positions]

    def classify(self, state: State) -> torch.Tensor:
        return state.hidden[:, 0]


def trial_task(request: Mapping[str, Any]) -> list[int]:
    """Runs a graph on the CPU with an example, in a separate process. Returns the shape of its logits. Raises
    FailedPrecondition."""
    file = Path(request["file"])
    session = Session(file, SessionSettings(torch.device("cpu"), file.parent, request["threads"], request["optimisation"]))
    asked = set(session.inputs)
    if not {"input_ids", "attention_mask"} <= asked <= INPUTS or OUTPUT not in session.outputs:
        message = (
            f"{file} reads {', '.join(sorted(asked))} and gives {', '.join(session.outputs)}; bertscope hosts graphs that "
            f"read input_ids, attention_mask and, if they like, token_type_ids, and give {OUTPUT}"
        )
        raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=file)
    example = torch.zeros(EXAMPLE, dtype=torch.int64, device="cpu")
    try:
        return list(session.shapes({name: example + (name == "attention_mask") for name in INPUTS})[OUTPUT])
    except FailedPrecondition as error:
        message = f"{error.message}; it must take any number of texts of any length"
        raise FailedPrecondition(message, error.reason, source=file) from error


def shape_of(file: Path, config: Mapping[str, Any], output: Sequence[int], parameters: int, *, reads_segments: bool) -> Shape:
    """Returns the dimensions of a graph from its config.json, whatever its architecture calls them, and from the shape of the
    logits of `EXAMPLE`. Raises FailedPrecondition."""

    def read(*names: str) -> int:
        found = next((config[name] for name in names if isinstance(config.get(name), int)), 0)
        if found < 1:
            message = f"the config.json of {file} has no {names[0]}; add it"
            raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=file)
        return int(found)

    kind = str(config.get("model_type", "unknown"))
    longest = read("max_position_embeddings", "n_positions")
    if "roberta" in kind or kind in BEHIND_PADDING:
        padding = config.get("pad_token_id")
        longest -= (padding if isinstance(padding, int) else 1) + 1
    rows, length = EXAMPLE
    labels = _labels(file, config, output[1]) if len(output) == 2 and output[0] == rows else ()
    vocabulary = read("vocab_size")
    if not labels and tuple(output) != (rows, length, output[-1]):
        message = (
            f"{file} gives logits of shape {list(output)} for {rows} texts of {length} tokens; they must be by text or token"
        )
        raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=file)
    if not labels and output[-1] != vocabulary:
        message = f"{file} gives {output[-1]} scores a token and its config.json says vocab_size {vocabulary}; correct it"
        raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=file)
    return Shape(
        architecture=kind,
        layers=read("num_hidden_layers", "n_layers", "n_layer"),
        heads=read("num_attention_heads", "n_heads", "n_head"),
        hidden_size=read("hidden_size", "dim", "n_embd"),
        vocabulary_size=vocabulary,
        max_tokens=longest,
        parameters=parameters,
        labels=labels,
        segments=_segments(config) if reads_segments else 1,
    )


def _segments(config: Mapping[str, Any]) -> int:
    """Returns the number of segments in a config.json; BERT's two if it has none."""
    found = config.get("type_vocab_size")
    return max(1, found) if isinstance(found, int) else 2


def _labels(file: Path, config: Mapping[str, Any], count: int) -> tuple[str, ...]:
    """Returns the names of the labels that a graph chooses from."""
    # If a config.json names none, they get the names that transformers gives them.
    names = config.get("id2label") or {str(number): f"LABEL_{number}" for number in range(count)}
    if not isinstance(names, Mapping) or set(names) != {str(number) for number in range(count)}:
        message = f"{file} gives {count} scores and its config.json does not name as many labels; correct id2label"
        raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=file)
    if count < 2 or config.get("problem_type") not in (None, "single_label_classification"):
        message = f"{file} does not choose one of several labels, which is all that bertscope classifies by"
        raise FailedPrecondition(message, "SOURCE_UNREADABLE", source=file)
    return tuple(str(names[str(number)]) for number in range(count))


def foreign_files(file: Path) -> tuple[Path, ...]:
    """Returns the file, and the files beside it that hold its tensors. Raises FailedPrecondition if one is missing or
    elsewhere."""
    return _files_of(file, _read(file))


def _files_of(file: Path, model: onnx.ModelProto) -> tuple[Path, ...]:
    names = {
        entry.value
        for tensor in tensors_of(model)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    for name in sorted(names):
        path = file.parent / name
        if Path(name).name != name or path.is_symlink():
            raise unreadable(file, ValueError(f"its weights lie in {name!r}; they may only lie in a file beside it, no link"))
        if not path.is_file():
            raise unreadable(file, ValueError(f"its weights should lie in {name!r} beside it, which does not exist"))
    return (file, *(file.parent / name for name in sorted(names)))


def _read(file: Path) -> onnx.ModelProto:
    try:
        return onnx.load(str(file), load_external_data=False)
    except Exception as error:  # protobuf raises many classes for malformed files
        raise unreadable(file, error) from error
