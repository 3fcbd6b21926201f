"""The workers behind a router: who is there, who takes work, and what happens when one is lost."""
