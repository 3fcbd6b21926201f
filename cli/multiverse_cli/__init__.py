"""The `multiverse` command. Knows processes and terminals; all work is done over HTTP."""
