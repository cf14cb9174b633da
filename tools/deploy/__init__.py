"""Checks what deploy/ holds, and runs parts of it on this machine."""
