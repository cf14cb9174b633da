"""Observers, which run beside a model's layers and reduce on the device; a module for each."""
