"""The questions that the service answers: pure functions over tensors and arrays, without grpc and without protobuf.

One folder on purpose, a module for each analysis: folders by question would be a circle, since all of them read texts and
words, and a lens asks as cloze does.
"""
