"""What tests share: servers, tiny models, references, and files that lie."""
