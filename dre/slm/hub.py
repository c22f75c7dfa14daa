"""A saved SLM that lies on the Hugging Face Hub."""

import re
from pathlib import Path

from dre.errors import DreError


def fetch(name):
    """Return the folder with the local copy of a Hub repository (``owner/name``).

    Only files of the kinds that a saved SLM has are fetched: no pickles, no code.

    Raises
    ------
    DreError
        If the name is no Hub id, or the repository is neither here nor within reach.
    """
    if not re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name):
        raise DreError(f"{name} is no saved SLM: there is no such folder, and it is no Hub id such as owner/name")
    from huggingface_hub import constants, snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=["*.json", "*.txt", "*.safetensors"]))
    except Exception as error:  # of the Hub's client, its HTTP library or the file system: all mean it is not here
        offline = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "no answer, or no such repository"
        raise DreError(
            f"{name} is no saved SLM here and could not be fetched from the Hugging Face Hub ({offline}: "
            f"{type(error).__name__}): give a folder, or a Hub id with network access"
        ) from error
