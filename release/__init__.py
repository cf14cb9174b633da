"""How a release is made: built, listed, and tried where nothing else is installed."""
