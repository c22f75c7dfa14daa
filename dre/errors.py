"""The one exception that a user is meant to read."""


class DreError(Exception):
    """Bad input or a refused operation: what was found, what was expected, what to do.

    The command line prints its message as one ``error: ...`` line and exits with status 2.
    """


class TryLater(DreError):
    """Something that the same command may do later: a server is away, a ceiling is reached."""
