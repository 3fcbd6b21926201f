"""The router: public APIs, the fork-join coordinator, and all text <-> ids. No torch."""
