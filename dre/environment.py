"""The version, the variables that name folders of the user, and how the package is installed."""

import os
from pathlib import Path

#: The version of the project.
VERSION = "0.4.0"

#: Where the project is. It is on no package index, so that is where pip takes it from.
ADDRESS = "https://github.com/dre-companion/dre"
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


def how_to_install(extra: str) -> str:
    """Return the command that installs the package with an extra, such as ``slm``."""
    package = f"dre-companion[{extra}] @ git+{ADDRESS}"
    return f"pip install '{package}', in a clone pip install -e '.[{extra}]'"
