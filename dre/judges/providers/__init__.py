"""The providers a judge can ask, by the name before the colon: ``openai:gpt-4o-mini``."""

import importlib

from dre.errors import DreError

# name -> (module, class); a module imports its SDK only when it connects.
PROVIDERS = {
    "openai": ("dre.judges.providers.openai_chat", "OpenAI"),
    "anthropic": ("dre.judges.providers.anthropic_messages", "Anthropic"),
    "gemini": ("dre.judges.providers.gemini", "Gemini"),
    "ollama": ("dre.judges.providers.ollama_chat", "Ollama"),
    "files": ("dre.judges.providers.outside", "Outside"),
}


def make(name, model, base_url="", key_env=None):
    """Return the provider of a name for a model."""
    if name not in PROVIDERS:
        raise DreError(f"no provider {name!r}: a judge is one of {', '.join(f'{n}:<model>' for n in PROVIDERS)}")
    module, cls = PROVIDERS[name]
    return getattr(importlib.import_module(module), cls)(model, base_url, key_env)
