"""How fast we are on a GPU, as shares of what the device can do: `make gpu`. Imports no more than the interpreter there has."""
