"""Speed, memory and losses of models, measured side by side."""
