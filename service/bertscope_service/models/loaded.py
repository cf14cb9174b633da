"""A model that is ready to answer, and the two specifications that it can be made from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from bertscope import __version__

from bertscope_service.checkpoints.confinement import ANYWHERE, Confinement
from bertscope_service.checkpoints.declared_pooling import DeclaredPooling, UnusableDeclaration
from bertscope_service.checkpoints.sources import Source
from bertscope_service.checkpoints.steps import Applied, Step
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.compression.plan import Subject
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.onnx.sessions import onnxruntime_version
from bertscope_service.models.runtime_choice import ChoiceKey, RuntimeChoice, RuntimeChoices

LIBRARIES = ("tokenizers", "torch", "transformers")
"""Libraries that shape the numbers; their versions and ours are part of every reply's provenance."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """The recipe of a compressed or pruned model: its source, the digest of the source's weights, and the steps.

    `folder` is where it is saved; None if it is not saved, then it can be made again from this alone. `confinement` is where
    the source's files must lie.
    """

    source: str
    revision: str
    digest: str
    steps: tuple[Step, ...]
    folder: Path | None
    confinement: Confinement = ANYWHERE


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """A load: `id` and source, device ("auto", "cpu", "cuda:N"), number format, and library ("auto", "torch", "onnx").

    With `derivation` the model is made first; `source` is then the folder it is saved in, or a description of its origin.
    `confinement` is where the source's files must lie.
    """

    id: str
    source: str
    device: str
    precision: str
    revision: str = ""
    derivation: Derivation | None = None
    runtime: str = "torch"
    confinement: Confinement = ANYWHERE

    @property
    def name(self) -> str:
        return f"models/{self.id}"


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model with all that answering needs.

    `steps` are the compression steps before it was loaded; `checkpoint` says that its source is a checkpoint of transformers,
    which can be compressed further. `source` is where it was read, None if that is gone. `alternatives` are other encoders of
    the same model until one is chosen to serve it. `temporary` holds a folder that is deleted with it. `choice` explains the
    decision of runtime "auto", and `remember` is where a new one is stored, and its key; both are None for another runtime.
    `declared` is the pooling that a folder of sentence-transformers declares; None for another folder.
    """

    spec: LoadSpec
    encoder: Encoder
    tokenizer: TextTokenizer
    weights_digest: str
    weight_bytes: int
    steps: tuple[Applied, ...] = ()
    checkpoint: bool = True
    source: Source | None = None
    alternatives: tuple[Encoder, ...] = ()
    temporary: object = None
    choice: RuntimeChoice | None = None
    remember: tuple[RuntimeChoices, ChoiceKey] | None = None
    declared: DeclaredPooling | UnusableDeclaration | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def subject(self) -> Subject:
        """The properties of the model that compression needs."""
        encoder, has_mask, steps = self.encoder, self.tokenizer.mask_id is not None, tuple(step.step for step in self.steps)
        return Subject(self.name, encoder.shape, encoder.capabilities, str(encoder.device), has_mask, self.checkpoint, steps)

    @cached_property
    def library_versions(self) -> dict[str, str]:
        libraries = {library: version(library) for library in LIBRARIES}
        if self.encoder.runtime == "onnx":
            libraries["onnxruntime"] = onnxruntime_version()
        return {"bertscope": __version__, **libraries}
