"""How long a reply may be: what a model thinks before it answers counts as its reply, and is paid for as such."""

import re

TOKENS = {"score": 1024, "label": 1024, "generate": 4096}
TOKENS_THINKING = {"score": 8192, "label": 8192, "generate": 12288}
# Families that think unless told not to, by the names their makers and servers give them.
_THINKING = re.compile(
    r"(?:^|[/:])(?:o\d|gpt-(?:[5-9]|oss)|claude-(?:[a-z]+-[5-9]|fable|mythos)|gemini-(?:2\.5|[3-9]))"
    r"|deepseek-?(?:r\d|v[4-9])|qwq|qwen-?3|magistral|glm-?[4-9]|kimi-k2|minimax-m|nemotron|think|reason|\br1\b",
    re.IGNORECASE,
)
_ASKED = {"think", "thinking", "thinking_config", "reasoning", "reasoning_effort"}


def thinks(model, extra=None):
    """Whether a model is likely to think before it answers, by its name or the parameters it is given."""
    return bool(_THINKING.search(model) or _ASKED & (extra or {}).keys())


def default(kind, provider, model, extra=None):
    """Return the longest reply, in tokens, to a kind of prompt, where the user sets none.

    It bounds what a call can cost, so a ceiling on money reserves that much for each call in flight. Ollama has the
    larger one for every model: a name there may say nothing, and on one's own machine nothing is paid.
    """
    return (TOKENS_THINKING if provider == "ollama" or thinks(model, extra) else TOKENS)[kind]
