"""A hosted model: its value, its name in requests, and its message."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from bertscope.errors import invalid_argument
from bertscope.v1 import model_pb2
from bertscope.values import messages, validation
from bertscope.values.display import record
from bertscope.values.results import AppliedStep

__all__ = ["Model", "RuntimeChoice", "RuntimeTimes"]


@record
class RuntimeTimes:
    """Times of one library, medians over the rounds."""

    runtime: str
    """The library: "torch" or "onnx"."""
    text_seconds: float
    """One text of about 20 words."""
    batch_seconds: float
    """A batch of 8 such texts."""


@record
class RuntimeChoice:
    """The choice of runtime "auto": the preferred library, unless the whole interval of `speedup` lies over `threshold`."""

    preferred: str
    """The library that is used if neither is clearly faster: "onnx" on a CPU, "torch" on a GPU."""
    threshold: float
    """The other library is used if it is this many times as fast as the preferred one."""
    times: tuple[RuntimeTimes, ...]
    """The times of each library; empty if only one can run the model."""
    speedup: float
    """Speed of the other library / speed of the preferred one: median of the rounds; 0 without times."""
    low: float
    """Lower end of its 95 % interval, which covers the noise of the rounds only; 0 without times."""
    high: float
    """Upper end of the interval; 0 without times."""
    rounds: int
    """Rounds that were measured; 0 without times."""
    measured_time: datetime.datetime | None
    """Time of the measurement, UTC; None without times."""
    remembered: bool
    """True if the choice was found in the server's cache, and this load measured nothing."""
    reason: str
    """Why there was no choice; empty with times."""

    def __str__(self) -> str:
        """Returns the choice in one sentence, as `bertscope models show` prints it."""
        if not self.times:
            return f"nothing to choose: {self.reason}"
        other = next((one.runtime for one in self.times if one.runtime != self.preferred), "the other")
        when = f", measured on {self.measured_time:%Y-%m-%d at %H:%M} UTC" if self.measured_time else ""
        return (
            f"{other} is {self.speedup:.2f} [{self.low:.2f}, {self.high:.2f}] times as fast as {self.preferred} and taken from "
            f"{self.threshold:g} on; {self.rounds} rounds{when}{', remembered' if self.remembered else ''}"
        )


@record
class Model:
    """A hosted model."""

    name: str
    """Resource name, "models/{id}"."""
    source: str
    """The source that it was loaded from: a hub id, a folder or an ONNX file."""
    architecture: str
    """"bert", "roberta", "electra" and so on."""
    runtime: str
    """The library that runs it: "torch" or "onnx". Only name, source and state are set before a model is ready."""
    device: str
    """The device that runs it: "cpu", "cuda:0", "mps"."""
    precision: str
    """The number format it computes in: "fp32", "bf16", "fp16", "int8" or "weight_only"."""
    layers: int
    """Number of encoder layers."""
    heads: int
    """Number of attention heads in each layer."""
    hidden_size: int
    """Length of a hidden state."""
    vocabulary_size: int
    """Number of pieces in the vocabulary."""
    max_tokens: int
    """Longest sequence it reads, in tokens, special tokens included."""
    parameters: int
    """Number of trainable parameters, shared ones counted once."""
    weight_bytes: int
    """Size of the weight files, bytes."""
    capabilities: tuple[str, ...]
    """Its capabilities: "attention", "cloze", "classification", "interventions", "ranking", "pruning",
    "next_sentence", "hidden_states", "token_classification", "multi_label", "regression"."""
    state: str
    """Its state: "loading", "ready" or "unloading"."""
    weights_digest: str
    """"sha256:" and 64 hexadecimal digits."""
    mask_token: str
    """Its own mask token; "[MASK]" is understood for every model. Empty if it has none."""
    ready_time: datetime.datetime | None
    """Time at which it became ready, UTC."""
    labels: tuple[str, ...]
    """Names of its labels in order of their indices; empty unless it classifies texts or words."""
    pruned_heads: Mapping[int, tuple[int, ...]]
    """Heads that were removed from its weights, by layer, with the numbers they had; `heads` still counts them."""
    compression: tuple[AppliedStep, ...] = ()
    """The steps of `compress_model`, in order; empty for a model that was not compressed here."""
    runtime_choice: RuntimeChoice | None = None
    """The choice of its library; None for a model that was loaded for a given one."""
    revision: str = ""
    """Commit of the hub that its files are of; empty for a model that was not read from the hub, whatever its folder is
    called."""


def model_name(field: str, model: str | Model | None) -> str:
    """Returns the resource name: "models/x" and "x" are the same, None is the server's default model."""
    if model is None:
        return ""
    name = validation.text(field, model.name if isinstance(model, Model) else model)
    if not name:
        raise invalid_argument(field, "is empty; leave it out to mean the server's default model")
    return name if name.startswith("models/") else f"models/{name}"


def short_name(model: Model) -> str:
    """Returns the id of a model, without "models/"."""
    return model.name.removeprefix("models/")


def read_model(message: model_pb2.Model) -> Model:
    """Returns a hosted model."""
    return messages.read(
        Model,
        message,
        runtime=messages.runtime(message.runtime),
        precision=messages.precision(message.precision),
        capabilities=tuple(messages.enum_name(model_pb2.Capability, value, "CAPABILITY_") for value in message.capabilities),
        state=messages.enum_name(model_pb2.Model.State, message.state, "STATE_"),
        ready_time=message.ready_time.ToDatetime(datetime.UTC) if message.HasField("ready_time") else None,
        pruned_heads=messages.heads_by_layer(message.pruned_heads),
        compression=messages.applied_steps(message.compression),
        runtime_choice=_runtime_choice(message.runtime_choice) if message.HasField("runtime_choice") else None,
    )


def _runtime_choice(message: model_pb2.RuntimeChoice) -> RuntimeChoice:
    return messages.read(
        RuntimeChoice,
        message,
        preferred=messages.runtime(message.preferred),
        times=tuple(messages.read(RuntimeTimes, one, runtime=messages.runtime(one.runtime)) for one in message.times),
        measured_time=message.measured_time.ToDatetime(datetime.UTC) if message.HasField("measured_time") else None,
    )
