"""The commands, a module for each, found by its name: each reads its options, asks the server, and shows the answer."""
