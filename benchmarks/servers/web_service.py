"""A web service that asks bertscope, as FastAPI's documentation writes one: one client for as long as it runs.

`BENCH_TARGET=HOST:PORT,HOST:PORT uvicorn benchmarks.servers.web_service:app`
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import bertscope
from fastapi import FastAPI, Request


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Holds the client."""
    async with bertscope.AsyncClient(os.environ["BENCH_TARGET"]) as client:
        app.state.client = client
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/fill")
async def fill(request: Request, text: str) -> dict[str, str]:
    """Returns the likeliest token of the text's only mask. An error of bertscope is a 500."""
    (answer,) = await request.app.state.client.fill_mask(text, top_k=1)
    return {"token": answer.masks[0].predictions[0].token}
