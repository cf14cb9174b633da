"""What is measured while heads are changed: one module per kind; each turns items into rows and what was seen into numbers."""
