"""Who may call a server, and how both sides prove who they are: TLS, tokens, roles."""
