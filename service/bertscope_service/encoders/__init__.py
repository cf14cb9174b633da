"""Runs models in different runtimes behind one interface: `base.py`."""
