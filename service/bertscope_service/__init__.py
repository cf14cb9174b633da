"""The bertscope server: hosts BERT-family models behind gRPC and answers questions about them."""
