"""A model that is ready to answer, and the two ways to say how one comes about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from bertscope import __version__

from bertscope_service.compression.plan import Subject
from bertscope_service.compression.steps import Applied, Step
from bertscope_service.confinement import ANYWHERE, Confinement
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.onnx_sessions import onnxruntime_version
from bertscope_service.sources import Source
from bertscope_service.tokenization import TextTokenizer

LIBRARIES = ("tokenizers", "torch", "transformers")
"""Libraries that shape the numbers; their versions and ours are part of every reply's provenance."""


@dataclass(frozen=True, slots=True)
class Made:
    """How a compressed or pruned model is made: the source it is made from, whose weights have this digest, and the steps.

    `folder` is where it is saved; None if it is not, then it can be made again from this alone. `confinement` is where the
    source's files must lie.
    """

    source: str
    revision: str
    digest: str
    steps: tuple[Step, ...]
    folder: Path | None
    confinement: Confinement = ANYWHERE


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """What to load: `id` and source, where to run it ("auto", "cpu", "cuda:N"), in which number format, and by which library
    ("auto", "torch", "onnx").

    With `made` the model is made first; `source` then says where it is saved, or in words what it was made from. `confinement`
    is where the source's files must lie.
    """

    id: str
    source: str
    device: str
    precision: str
    revision: str = ""
    made: Made | None = None
    runtime: str = "torch"
    confinement: Confinement = ANYWHERE

    @property
    def name(self) -> str:
        return f"models/{self.id}"


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """All that answering takes. `steps` says what was done to it before it was loaded, `checkpoint` whether its source is one
    of transformers, so that more can be done to it. `source` is where it was read, None where that is gone; `rivals` are other
    encoders of the same model while it is not decided yet which one serves it; `scratch` holds a folder that goes with it."""

    spec: LoadSpec
    encoder: Encoder
    tokenizer: TextTokenizer
    weights_digest: str
    weight_bytes: int
    steps: tuple[Applied, ...] = ()
    checkpoint: bool = True
    source: Source | None = None
    rivals: tuple[Encoder, ...] = ()
    scratch: object = None

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def subject(self) -> Subject:
        """What compression must know of it."""
        shape, device, has_mask = self.encoder.shape, str(self.encoder.device), self.tokenizer.mask_id is not None
        return Subject(self.name, shape, device, has_mask, self.checkpoint, tuple(step.step for step in self.steps))

    @cached_property
    def library_versions(self) -> dict[str, str]:
        libraries = {library: version(library) for library in LIBRARIES}
        if self.encoder.runtime == "onnx":
            libraries["onnxruntime"] = onnxruntime_version()
        return {"bertscope": __version__, **libraries}
