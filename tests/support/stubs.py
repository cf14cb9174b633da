"""The stubs of all services on one channel."""

from importlib import import_module
from typing import Any

import grpc

MODULES = {"models": "model", "answering": "question_answering"}
"""The modules of services that have another name here."""


class Stubs:
    """Has a stub of each service of bertscope.v1 by the name of its module: `cloze`, `attention` and so on."""

    channel: grpc.Channel

    def __getattr__(self, name: str) -> Any:
        module = MODULES.get(name, name)
        try:
            found = vars(import_module(f"bertscope.v1.{module}_pb2_grpc"))
        except ModuleNotFoundError as error:
            raise AttributeError(name) from error
        service = f"{module.title().replace('_', '')}ServiceStub"
        vars(self)[name] = found[service](self.channel)
        return vars(self)[name]
