"""A row's signature: what its numbers were made of, in one line."""

SHORT = 8


def signature(**parts):
    """Return ``data:topicalchat-usr@1a2b3c4d|judge:...|...``, the parts in the order given, empty ones left out.

    A part is a text, or the parts of a part: a mapping, written ``name=value`` and divided by blanks.
    """
    texts = {
        name: " ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
        for name, value in parts.items()
    }
    return "|".join(f"{name}:{' '.join(text.replace('|', '/').split())}" for name, text in texts.items() if text)


def parts(line):
    """Return the parts of a signature as texts by name."""
    return {name: text for name, _, text in (part.partition(":") for part in line.split("|"))}


def named(name, sha256):
    """Return ``name@<first eight digits of its sha256>``."""
    return f"{name}@{sha256[:SHORT]}"
