"""The environment variables that name folders and files of the user."""

import os
from pathlib import Path

#: The folder of the public data, and the file in which the replies of judges are kept.
_PATH_VARIABLES = ("DRE_DATA_HOME", "DRE_STORE")


def make_paths_absolute() -> None:
    """Make relative paths in `_PATH_VARIABLES` absolute, for this process and its children.

    The package does this when it is imported, before anything changes the working directory. A
    relative path keeps its meaning then: it starts at the directory in which the user typed it.
    """
    for variable in _PATH_VARIABLES:
        value = os.environ.get(variable)
        if value and value != ":memory:":  # a store that is kept in memory has no path
            os.environ[variable] = str(Path(os.path.expanduser(value)).absolute())
