"""The commands: each reads its options, asks the server, and shows the answer."""
