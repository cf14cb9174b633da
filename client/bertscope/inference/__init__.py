"""Generated from protos/bertscope/inference: messages and stubs of the wire contract. Do not edit; run `make protos`."""
