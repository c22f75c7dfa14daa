"""What made an output: the signature of scores, and the summary file that holds it.

A command writes a summary as JSON next to every output, ``scores.csv.summary.json`` next to
``scores.csv``. Its entry ``signature`` is an object with one field for each thing that decides the
output. Signatures are compared field by field. The line that a command prints is made from the
fields and never read back.
"""

import json
import re
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from dre.errors import DreError

#: Fields that the printed line calls by another name.
_PRINTED_NAMES = {"method": "dre"}
_HASH_LENGTH = 12  # so many characters of a sha256 are printed


class Difference(NamedTuple):
    """A field in which two signatures differ, with both values as they are printed."""

    field: str
    value: str
    other_value: str


@dataclass(frozen=True)
class Signature:
    """The fields that decide an output, such as method, model, judge, prompt and data.

    Attributes
    ----------
    fields
        Field to value, a JSON type. The prompt is what `dre.judges.prompts.Prompt.reading` gives.
        A field that does not apply is absent.
    """

    fields: dict

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """Make a signature, without the fields that are None."""
        return cls({name: value for name, value in fields.items() if value is not None})

    def __str__(self) -> str:
        """Return the line to print with scores."""
        named = {_PRINTED_NAMES.get(name, name): value for name, value in self.fields.items()}
        line = "|".join(f"{name}:{_text(value).replace('|', '/')}" for name, value in named.items())
        return " ".join(line.split())

    def differences(self, signature: Self, ignored: Container[str] = ()) -> list[Difference]:
        """Return the fields in which another signature differs, except those that are ignored.

        Each part of a prompt counts as a field (``prompt scale``). Its name does not
        count where its hash is known.
        """
        ours, theirs = _flat(self.fields), _flat(signature.fields)
        return [
            Difference(name, _text(ours.get(name)), _text(theirs.get(name)))
            for name in ours | theirs
            if ours.get(name) != theirs.get(name) and name.partition(" ")[0] not in ignored
        ]


class Summary(NamedTuple):
    """The summary of an output: what made it, and everything else in the file."""

    signature: Signature
    content: dict


def summary_path(output: str | Path) -> Path:
    """Return where the summary of an output is."""
    return Path(f"{output}.summary.json")


def load_summary(output: str | Path) -> Summary | None:
    """Read the summary of an output.

    Returns None if there is no such file. Raises DreError if the file is no summary that ``dre``
    wrote.
    """
    path = summary_path(output)
    try:
        content = json.loads(path.read_bytes())
        signature = Signature(dict(content["signature"]))
        if not signature.fields:
            raise ValueError
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise DreError(
            f"{path}: this is not a summary that dre wrote: make {output} again, or take the "
            "summary away"
        ) from None
    return Summary(signature, content)


def _flat(fields):
    """Return fields where each part of an object has become a field, such as ``prompt scale``."""
    flat = {}
    for name, value in fields.items():
        if not isinstance(value, dict):
            flat[name] = value
            continue
        flat |= {f"{name} {key}": part for key, part in value.items() if part is not None}
        if "sha256" in value:
            flat.pop(f"{name} name", None)  # the same prompt under another name
    return flat


def _text(value):
    """Return a value of a signature as text: lists with commas, objects as key=value."""
    if isinstance(value, dict):
        parts = {key: part for key, part in value.items() if part not in (None, {}, [])}
        return " ".join(f"{key}={_text(part)}" for key, part in parts.items())
    if isinstance(value, list):
        return ",".join(map(_text, value))
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text[:_HASH_LENGTH] if re.fullmatch("[0-9a-f]{64}", text) else text
