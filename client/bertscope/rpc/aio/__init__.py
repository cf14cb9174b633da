"""Shares of all questions' calls, for asyncio: connection, streams, many texts; `bertscope.client` has those for threads."""
