"""The page of `bertscope explore`, served on this machine. Only this package imports Starlette and uvicorn, of the extra
"explore"."""
