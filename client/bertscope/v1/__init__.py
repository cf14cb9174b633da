"""Generated from protos/bertscope/v1: messages and stubs of the wire contract. Do not edit; run `make protos`."""
