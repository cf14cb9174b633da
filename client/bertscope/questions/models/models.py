"""The models of a server: the requests of ModelService, its replies and their table."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from bertscope.v1 import common_pb2, model_pb2
from bertscope.values import messages, validation
from bertscope.values.display import data_frame, record
from bertscope.values.models import Model, model_name, read_model
from bertscope.values.results import Results

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LoadProgress", "Models"]


class Models(Results[Model]):
    """The models of a server, the default model first."""

    __slots__ = ()

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each model, a column for each field of `Model`. Needs the extra "pandas"."""
        columns = [field.name for field in dataclasses.fields(Model)]
        return data_frame([[getattr(model, column) for column in columns] for model in self], columns)


@record
class LoadProgress:
    """The progress of loading a model."""

    stage: str
    """"resolving", "downloading", "reading" or "warming_up"."""
    done_bytes: int
    """The bytes done in this stage; 0 if they are not counted."""
    total_bytes: int
    """The bytes of this stage; 0 if unknown."""
    detail: str
    """The file or step in words."""


def load_model_request(
    model: str | None,
    *,
    source: str,
    device: str | None,
    precision: str | None,
    revision: str | None,
    runtime: str | None,
    replace: bool,
) -> model_pb2.LoadModelRequest:
    """Returns the request of LoadModel."""
    number_format = None if precision is None else validation.choice("precision", precision, messages.PRECISIONS)
    return model_pb2.LoadModelRequest(
        model_id=validation.text("model_id", model or "").removeprefix("models/"),
        source=validation.text("source", source),
        device=validation.text("device", device or ""),
        precision=number_format or common_pb2.PRECISION_UNSPECIFIED,
        revision=validation.text("revision", revision or ""),
        runtime=messages.runtime_of(runtime),
        replace=validation.flag("replace", replace),
    )


def unload_model_request(model: str | Model) -> model_pb2.UnloadModelRequest:
    """Returns the request of UnloadModel. The server rejects one without a name."""
    return model_pb2.UnloadModelRequest(name=model_name("name", model))


def read_load_event(message: model_pb2.LoadModelResponse) -> LoadProgress | Model | None:
    """Returns the event in a message of LoadModel; None for an event that this version does not know."""
    if message.HasField("model"):
        return read_model(message.model)
    if not message.HasField("progress"):
        return None
    stage = messages.enum_name(model_pb2.LoadProgress.Stage, message.progress.stage, "STAGE_")
    return messages.read(LoadProgress, message.progress, stage=stage)
