"""Questions to a server, and what it costs to ask, watch, secure and lose one."""
