"""Reads the files that commands wrote, for the Results view: in a process with limits, because a file may hold anything.

The process begins with each file. So that it begins fast, this package imports nothing of `bertscope`, and is found by its own
folder.
"""
