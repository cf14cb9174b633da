"""The bertscope command."""
