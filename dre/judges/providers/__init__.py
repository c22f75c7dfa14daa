"""The providers of language models, one file for each; another one is another file and line here.

An SDK brings its own client, retries what may pass, and words its errors. `dre.judges.transport` is
between it and the server.
"""

import os
import re

from dre.environment import how_to_install
from dre.errors import DreError
from dre.judges.providers.anthropic import Anthropic
from dre.judges.providers.base import Provider, Reply
from dre.judges.providers.gemini import Gemini
from dre.judges.providers.ollama import Ollama
from dre.judges.providers.openai import OpenAI

PROVIDERS: dict[str, type[Provider]] = {
    provider.name: provider for provider in (OpenAI, Anthropic, Gemini, Ollama)
}
#: How judges are named, for help and messages.
SPECS = ", ".join(f"{name}:<model>" for name in PROVIDERS) + " or recorded:<name>"

__all__ = ["PROVIDERS", "SPECS", "Provider", "Reply", "address_of", "connect"]


def address_of(name: str, base_url: str = "") -> str:
    """Return where a provider is asked: at ``base_url``, or as its SDK's variable says."""
    provider = PROVIDERS[name]
    variable = os.environ.get(provider.base_url_variable, "").strip()
    return provider.complete(base_url.strip() or variable or provider.address)


def connect(name: str, model: str, address: str, key_env: str | None, timeout: float) -> Provider:
    """Return a model that can be asked.

    The provider's key goes to its own host alone. Another server gets the key that ``key_env``
    names, or none.

    Raises
    ------
    DreError
        If a key or an SDK is missing, a key cannot be sent, or no client can be made.
    """
    provider = PROVIDERS[name]
    names = (key_env,) if key_env else ()
    if not key_env and provider.is_own_host(address):
        names = provider.key_variables
    keys = [os.environ[name].strip() for name in names if os.environ.get(name, "").strip()]
    if names and not keys:
        raise DreError(f"{' or '.join(names)} is not set: export it with your key for {name}")
    key = keys[0] if keys else ""
    if not re.fullmatch("[!-~]*", key):
        raise DreError(f"{' or '.join(names)}: expected letters, digits and signs of ASCII alone")
    try:
        return provider(model, address, key, timeout)
    except ModuleNotFoundError as error:
        package = (error.name or name).replace(".", "-")
        raise DreError(f"{package} is not installed: {how_to_install('judges')}") from None
    except (ImportError, ValueError) as error:  # such as a proxy of a kind that is not known
        raise DreError(f"no client can be made for {address}: {error}") from None
