"""Runs in an environment of tritonclient's own: calls a server through it and prints what came back, as JSON.

python triton_calls.py HOST:PORT IDS        IDS: the token ids of TEXT, as JSON
"""

import base64
import json
import queue
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tritonclient import grpc as triton  # type: ignore[import-not-found]
from tritonclient.utils import InferenceServerException  # type: ignore[import-not-found]

TEXT = "Paris is the capital of [MASK]."
MODEL = "bertscope-mini"
SECONDS = 30.0


def main(target: str, ids: list[int]) -> dict[str, Any]:
    with triton.InferenceServerClient(target) as client:
        fill = {"outputs": asked("token", "probability"), "client_timeout": SECONDS}
        return {
            "live": client.is_server_live(),
            "ready": client.is_server_ready(),
            "models": [client.is_model_ready(name) for name in (MODEL, f"models/{MODEL}", "nobody")],
            "server": client.get_server_metadata(as_json=True),
            "metadata": client.get_model_metadata(MODEL, as_json=True),
            "config": client.get_model_config(MODEL, as_json=True),
            "by_text": filled(client.infer(MODEL, [words([TEXT, TEXT])], **fill)),
            "by_ids": filled(client.infer(MODEL, [numbers(ids)], parameters={"top_k": 3}, **fill)),
            "hidden": client.infer(MODEL, [numbers(ids)], client_timeout=SECONDS).as_numpy("last_hidden_state").tolist(),
            "at_once": at_once(client),
            "errors": [error_of(call) for call in mistakes(client)],
            "files": [base64.b64encode(module.DESCRIPTOR.serialized_pb).decode() for module in modules()],
        }


def words(texts: Sequence[str]) -> Any:
    tensor = triton.InferInput("text", [len(texts), 1], "BYTES")
    tensor.set_data_from_numpy(np.array([[text.encode()] for text in texts], dtype=np.object_))
    return tensor


def numbers(ids: Sequence[int]) -> Any:
    tensor = triton.InferInput("input_ids", [1, len(ids)], "INT64")
    tensor.set_data_from_numpy(np.array([ids], dtype=np.int64))
    return tensor


def asked(*names: str) -> list[Any]:
    return [triton.InferRequestedOutput(name) for name in names]


def filled(result: Any) -> list[Any]:
    """The tokens of each text, likeliest first, and their probabilities."""
    tokens = [[token.decode() for token in row] for row in result.as_numpy("token")]
    return [tokens, result.as_numpy("probability").tolist()]


def at_once(client: Any) -> list[Any]:
    """What eight calls that run at the same time get, beside one that is given up."""
    arrived: queue.Queue[tuple[Any, Any]] = queue.Queue()
    for _ in range(8):
        client.async_infer(MODEL, [words([TEXT])], lambda result, error: arrived.put((result, error)), client_timeout=SECONDS)
    client.async_infer(MODEL, [words([TEXT] * 64)], lambda *_: None, client_timeout=SECONDS).cancel()
    found = [arrived.get(timeout=SECONDS) for _ in range(8)]
    return [filled(result) if error is None else str(error) for result, error in found]


def mistakes(client: Any) -> list[Callable[[], Any]]:
    """Calls that must fail."""
    return [
        lambda: client.infer("nobody", [words([TEXT])]),
        lambda: client.infer(MODEL, [words(["no mask here"])]),
        lambda: client.infer(MODEL, [words([TEXT])], outputs=asked("nothing")),
        lambda: client.infer(MODEL, [words([TEXT])], model_version="2"),
        lambda: client.infer(MODEL, [words([TEXT])], client_timeout=1e-6),
        lambda: client.get_inference_statistics(MODEL),
    ]


def error_of(call: Callable[[], Any]) -> list[str]:
    """Status and message."""
    try:
        call()
    except InferenceServerException as error:
        return [error.status(), error.message()]
    return ["OK", ""]


def modules() -> list[Any]:
    return [triton.model_config_pb2, triton.service_pb2]


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.loads(sys.argv[2]))))
