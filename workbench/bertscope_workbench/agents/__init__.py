"""Offers a server's calls to agents as tools of the Model Context Protocol. They are made from the contract, none by hand."""
