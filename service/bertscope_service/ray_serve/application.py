"""Builds the application that Ray Serve deploys: a deployment for each model, and the ingress before them."""

from __future__ import annotations

import os
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from ray import serve

from bertscope_service.embedded import EMBEDDED
from bertscope_service.ray_serve.ingress import Ingress
from bertscope_service.ray_serve.replica import ModelReplica
from bertscope_service.settings import PREFIX, Settings, problem_lines

INGRESS = "ingress"
MODEL_CALLS = 64
"""Calls that one replica has at a time, unless configured otherwise: its engine makes batches of the waiting ones."""

INGRESS_CALLS = 10_000
"""The same for the ingress, which only waits; watches of health count, too."""

MODEL_QUEUE, INGRESS_QUEUE = 1000, 10_000
"""Calls that wait beyond those, unless the configuration says otherwise: without a bound they would pile up in Ray."""

TLS = ("tls_certificate", "tls_key", "tls_client_ca")
"""Settings without effect here, where Ray has the sockets; giving them is an error."""


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
            raise ValueError(f"every model needs a different name, and none may be called {INGRESS!r}")
        given = {*self.settings, *(name for model in self.models for name in model.settings)}
        # Ray builds on a node, so the node's variables count, too.
        variables = {variable.upper() for variable in os.environ}
        if useless := [name for name in TLS if name in given or PREFIX + name.upper() in variables]:
            raise ValueError(f"{', '.join(useless)}: Ray's proxy speaks no TLS; put a proxy that does before it")
        if any("tokens_file" in model.settings for model in self.models):
            raise ValueError("tokens_file guards the ingress, not one model: give it in the settings of all")
        for model in self.models:
            # Checked here and not in replicas, which Ray would restart repeatedly.
            try:
                Settings(**self._settings_of(model))
            except ValidationError as error:
                raise ValueError(f"models.{model.name}: {'; '.join(problem_lines(error))}") from None
        return self

    def _settings_of(self, model: Model) -> dict[str, Any]:
        return {**self.settings, **model.settings, "model": [f"{model.name}={model.source}"]}

    def application(self) -> serve.Application:
        """Returns the deployments, bound to each other."""
        models = {
            model.name: serve.deployment(name=model.name, max_ongoing_requests=MODEL_CALLS, max_queued_requests=MODEL_QUEUE)(
                ModelReplica
            ).bind(self._settings_of(model))
            for model in self.models
        }
        place = serve.deployment(
            name=INGRESS,
            max_ongoing_requests=INGRESS_CALLS,
            max_queued_requests=INGRESS_QUEUE,
            ray_actor_options={"num_cpus": 0},
        )
        return place(Ingress).bind(models, self.settings)


def build(args: dict[str, Any]) -> serve.Application:
    """Builds the application; `import_path` names this function. Raises ValueError, which says what is wrong."""
    try:
        configuration = Configuration.model_validate(args)
    except ValidationError as error:
        raise ValueError("; ".join(problem_lines(error))) from None
    return configuration.application()
