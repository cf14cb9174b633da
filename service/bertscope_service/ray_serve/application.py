"""What Ray Serve deploys: a deployment for each model, and the ingress before them."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from ray import serve

from bertscope_service.ray_serve.ingress import Ingress
from bertscope_service.ray_serve.replica import ModelReplica
from bertscope_service.settings import Settings

EMBEDDED = "bertscope-mini"
INGRESS = "ingress"
MODEL_CALLS = 64
"""Calls that one replica has at a time, unless the configuration says otherwise: its engine makes batches of what waits."""

INGRESS_CALLS = 10_000
"""The same of the ingress, which only waits; watches of health count, too."""


class Model(BaseModel):
    """A model, and how its replicas are set up. The deployment that Ray knows has the model's name."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")
    """Its id: callers ask for "models/NAME"."""

    source: str
    """A hub id, a folder or an ONNX file, to be found under the same path on every machine."""

    settings: dict[str, Any] = {}
    """Settings of `bertscope serve` by their names in Python (batch_tokens, not --batch-tokens), before those of all models."""


class Configuration(BaseModel):
    """The `args` of an application in a configuration of Ray Serve."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    models: list[Model] = Field([Model(name=EMBEDDED, source=EMBEDDED)], min_length=1)
    """The first one answers requests that name none."""

    settings: dict[str, Any] = {}
    """Settings of all replicas, and of the ingress (tokens_file)."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [INGRESS, *(model.name for model in self.models)]
        if len(set(names)) < len(names):
            raise ValueError(f"every model needs a name of its own, and none may be called {INGRESS!r}")
        for model in self.models:
            # Here and not in replicas, which Ray would start again and again.
            Settings(**self._settings_of(model))
        return self

    def _settings_of(self, model: Model) -> dict[str, Any]:
        return {**self.settings, **model.settings, "model": [f"{model.name}={model.source}"]}

    def application(self) -> serve.Application:
        """The deployments, bound to each other."""
        models = {
            model.name: serve.deployment(name=model.name, max_ongoing_requests=MODEL_CALLS)(ModelReplica).bind(
                self._settings_of(model)
            )
            for model in self.models
        }
        place = serve.deployment(name=INGRESS, max_ongoing_requests=INGRESS_CALLS, ray_actor_options={"num_cpus": 0})
        return place(Ingress).bind(models, self.settings)


def build(args: dict[str, Any]) -> serve.Application:
    """What `import_path` names. Raises pydantic.ValidationError, which says what is wrong."""
    return Configuration.model_validate(args).application()
