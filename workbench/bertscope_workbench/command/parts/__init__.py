"""Parts of commands that have several: what one mode of a command asks, prints and writes."""
