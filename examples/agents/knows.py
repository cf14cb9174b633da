"""Asks, as an agent would, whether a model knows something, and by which heads: at most five calls of tools.

    python examples/agents/knows.py "Paris is the capital of [MASK]." france                    starts `bertscope mcp` by itself
    python examples/agents/knows.py --url http://127.0.0.1:6270/mcp "The [MASK] barked." dog    asks one that runs

BERTSCOPE_TARGET is the bertscope server, BERTSCOPE_MCP_TOKEN the token that a server of HTTP wants.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

Answer = dict[str, Any]


def transport(url: str | None) -> AbstractAsyncContextManager[Any]:
    """Returns the way to the tools: a process of its own, or the server at `url`."""
    if url is None:
        return stdio_client(StdioServerParameters(command="bertscope", args=["mcp"], env=dict(os.environ)))
    token = os.environ.get("BERTSCOPE_MCP_TOKEN")
    headers = {"authorization": f"Bearer {token}"} if token else None
    return streamable_http_client(url, http_client=httpx2.AsyncClient(headers=headers, timeout=120))


async def call(client: Client, tool: str, **arguments: Any) -> Answer:
    """Returns the answer of a tool. Ends the program with the message of an error, which says what to do."""
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    document: Answer = json.loads(getattr(content, "text", "{}"))
    if result.is_error:
        raise SystemExit(document["error"]["message"])
    answer: Answer = document["answer"]
    return answer


def likeliest(filled: Answer) -> list[Answer]:
    """Returns the predictions of the first mask of the first text."""
    found: list[Answer] = filled["results"][0]["masks"][0]["predictions"]
    return found


def heads_of(effects: Any, most: int = 3) -> list[tuple[int, int, float]]:
    """Returns the heads with the largest effects: layer, head, effect. Large arrays come by their extremes."""
    if isinstance(effects, dict):
        return [(layer, head, effect) for layer, head, effect in effects["largest"][:most]]
    found = [(layer, head, effect) for layer, row in enumerate(effects) for head, effect in enumerate(row)]
    return sorted(found, key=lambda each: -each[2])[:most]


async def main(url: str | None, text: str, answer: str) -> None:
    async with Client(transport(url)) as client:
        best = likeliest(await call(client, "fill_mask", texts=[text], topK=5))
        print(text, "->", ", ".join("{token} {probability:.1%}".format(**each) for each in best))
        (asked,) = likeliest(await call(client, "fill_mask", texts=[text], candidates=[answer]))
        print(f"{answer}: rank {asked['rank']}, {asked['probability']:.1%}")
        other = next(each["token"] for each in best if each["token"] != answer)
        parts = await call(
            client, "attribute_logits", inputs=[{"text": text, "answer": answer, "otherAnswer": other}], ablate=True
        )
        heads = heads_of(parts["results"][0]["ablated"])
        for layer, head, effect in heads:
            print(f"layer {layer}, head {head}: without it {answer} loses {effect:.2f} logits to {other}")
        silenced = [
            {"layer": layer, "heads": [head for other_layer, head, _ in heads if other_layer == layer], "mode": "MODE_ZERO"}
            for layer in sorted({layer for layer, *_ in heads})
        ]
        (left,) = likeliest(await call(client, "fill_mask", texts=[text], candidates=[answer], interventions=silenced))
        print(f"without these {len(heads)} heads: rank {left['rank']}, {left['probability']:.1%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="the address that bertscope mcp --http prints")
    parser.add_argument("text", help="a text with one [MASK]")
    parser.add_argument("answer", help="the word that a model which knows it predicts")
    given = parser.parse_args()
    asyncio.run(main(given.url, given.text, given.answer))
