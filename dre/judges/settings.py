"""What identifies a judgement: every field that can change a model's answer, and nothing else."""

import hashlib
import json
from dataclasses import dataclass
from urllib.parse import urlsplit

from dre.errors import DreError


def canonical(value):
    """Return JSON text that does not depend on the order of keys, on white space or escapes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sha256(text):
    """Return the 64-hex sha256 of a text in UTF-8; a lone surrogate, which UTF-8 cannot write, is kept."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def messages_sha256(messages):
    """Return the sha256 of rendered messages (a list of ``{"role", "content"}``)."""
    # Lengths in front make it unambiguous; it takes a fifth of the time of JSON.
    return sha256("".join(f"{m['role']}:{len(m['content'])}:{m['content']}" for m in messages))


@dataclass(frozen=True)
class Setting:
    """Who was asked, and how: what all judgements of one run share.

    A judgement's key is its setting, the sha256 of its rendered messages and its repeat index.

    Attributes
    ----------
    provider, base_url, model : str
        ``base_url`` is empty for the provider's own address.
    prompt, prompt_sha256 : str
        The name is for people; only the hash is part of the key.
    params : str
        Canonical JSON of the parameters that were sent, structured output among them.
    """

    provider: str
    base_url: str
    model: str
    prompt: str
    prompt_sha256: str
    params: str

    @property
    def key(self):
        """The fields that identify the setting, in the order of the store's columns."""
        return (self.provider, self.base_url, self.model, self.prompt_sha256, self.params)

    def custom_id(self, messages_hash, repeat):
        """Return an id for a request in a file or a batch: 57 letters, digits and dashes.

        It opens with the prompt's hash, so that a reply to another wording can be told from a stray one.
        """
        return f"{self.prompt_sha256[:16]}-{sha256(canonical([*self.key, messages_hash, repeat]))[:40]}"


def clean_base_url(url):
    """Return a base URL without trailing slashes; refuse one that holds a key, since it is stored."""
    if not url:
        return ""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise DreError("the base URL must look like http://host:port/path: give --base-url in full")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise DreError(
            "the base URL holds a user name, password or query, which would be written into the store: "
            "give the bare address and put the key into the environment"
        )
    return url.rstrip("/")
