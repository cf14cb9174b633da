"""Serves the graph with KServe's gRPC server, in an interpreter that has kserve; see kserve.py.

KServe's own ModelServer would start a second server, for HTTP, beside it and listen on every interface.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import uvloop
from kserve import Model, ModelRepository  # type: ignore[import-not-found]
from kserve.protocol.dataplane import DataPlane  # type: ignore[import-not-found]
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages  # type: ignore[import-not-found]
from kserve.protocol.grpc import grpc_predict_v2_pb2_grpc as services
from kserve.protocol.grpc.interceptors import ExceptionToStatusInterceptor, LoggingInterceptor  # type: ignore[import-not-found]
from kserve.protocol.grpc.servicer import InferenceServicer  # type: ignore[import-not-found]
from kserve.protocol.infer_type import InferRequest  # type: ignore[import-not-found]
from kserve.protocol.model_repository_extension import ModelRepositoryExtension  # type: ignore[import-not-found]

from benchmarks.peers.graph import Graph


class Encoder(Model):  # type: ignore[misc]
    """The graph. It answers with a finished message: KServe's own type for one would be built and converted again."""

    def __init__(self, name: str, graph: Graph, thread: ThreadPoolExecutor | None) -> None:
        super().__init__(name)
        self._graph, self._thread = graph, thread
        self.ready = True

    async def predict(self, payload: InferRequest, headers: Any = None, response_headers: Any = None) -> Any:
        feeds = {name: payload.get_input_by_name(name).as_numpy() for name in self._graph.inputs}
        if self._thread is None:
            output = self._graph.run(feeds)
        else:
            output = await asyncio.get_running_loop().run_in_executor(self._thread, self._graph.run, feeds)
        tensor = messages.ModelInferResponse.InferOutputTensor(name=self._graph.output, datatype="FP32", shape=output.shape)
        return messages.ModelInferResponse(
            model_name=self.name, id=payload.id, outputs=[tensor], raw_output_contents=[output.tobytes()]
        )


async def serve(job: dict[str, Any]) -> None:
    thread = ThreadPoolExecutor(max_workers=1) if job["in_thread"] else None
    models = ModelRepository()
    models.update(Encoder(job["model"], Graph(job["file"], job["threads"]), thread))
    server = grpc.aio.server(
        ThreadPoolExecutor(max_workers=4),  # as many as KServe's default
        interceptors=(LoggingInterceptor(), ExceptionToStatusInterceptor()),
        options=[("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)],
    )
    servicer = InferenceServicer(DataPlane(model_registry=models), ModelRepositoryExtension(model_registry=models))
    services.add_GRPCInferenceServiceServicer_to_server(servicer, server)
    server.add_insecure_port(job["target"])
    await server.start()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    await server.stop(None)


if __name__ == "__main__":
    logging.getLogger("kserve").setLevel(logging.ERROR)
    asked = json.loads(sys.argv[1])
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if asked["uvloop"] else None) as runner:
        runner.run(serve(asked))
