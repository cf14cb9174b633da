"""Runtimes that run a model, behind one seam: `base.py`."""
