"""bertscope on Ray Serve: models as deployments with replicas on many machines, behind Ray's own gRPC proxy.

    client ── Ray's gRPC proxy ── ingress ── replicas of a model
              proxy.py            ingress.py   replica.py, answering.py

Each replica runs the engine and the servicers of `bertscope serve`; Ray starts, places, scales and replaces them. Apart from
`answering.py`, these modules import neither PyTorch nor transformers: only replicas need them.
"""
