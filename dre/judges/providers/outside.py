"""An engine outside this program, reached through files only (``dre judge export`` and ``import``)."""

from dre.errors import DreError
from dre.judges.providers.openai_chat import OpenAI


class Outside(OpenAI):
    """Requests and replies in the form of Chat Completions; nothing is ever called."""

    name, needs_key, limit = "files", False, "max_tokens"

    def connect(self, timeout):
        """Refuse."""
        raise DreError(
            f"files:{self.model} is asked through files: write the missing prompts with `dre judge export`, "
            "answer them with any engine, read the replies with `dre judge import`"
        )
