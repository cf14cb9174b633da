"""Reads the files that commands wrote, for the Results view: in a process with limits, because a file may hold anything."""
