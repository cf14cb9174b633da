"""The gRPC services: each checks requests, plans, and renders replies; all of them go through `answer`.

One folder on purpose: a module's name begins with its service's (`attention_relations`), and folders for services would be a
circle, since they share `answer`, which needs changes at sites, and targets, which need states and passages.
"""
