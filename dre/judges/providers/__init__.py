"""The providers of language models: one file in this folder for each of them.

A file has a class that says all of its provider, a `dre.judges.provider.Provider` with a ``name``.
Help texts, messages, prices and tests take it from here.
"""

import importlib
import pkgutil

from dre.judges.provider import Provider


def _in_this_folder():
    """Yield the class of each provider."""
    for file in pkgutil.iter_modules(__path__, f"{__name__}."):
        module = importlib.import_module(file.name)
        for value in vars(module).values():
            is_provider = isinstance(value, type) and issubclass(value, Provider)
            if is_provider and value.__module__ == file.name and value.name:
                yield value


#: The class of each provider, by its name.
PROVIDERS: dict[str, type[Provider]] = {provider.name: provider for provider in _in_this_folder()}
#: How judges are named, for help and messages.
SPECS = ", ".join(f"{name}:<model>" for name in PROVIDERS) + " or recorded:<name>"
