"""What the command itself refuses."""


class InputError(Exception):
    """A file does not hold what it should; the message names file and line."""
