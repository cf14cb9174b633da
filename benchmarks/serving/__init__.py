"""Questions to a server, beside other ways to the same answer, and what it costs to ask, watch and secure one."""
