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
        return "|".join(
            f"{_PRINTED_NAMES.get(name, name)}:{_as_line(value)}"
            for name, value in self.fields.items()
        )

    def text(self, name: str) -> str:
        """Return the printed text of a field, or "None" if there is no such field."""
        return _as_text(self.fields.get(name))

    def differences(self, signature: Self, ignored: Container[str] = ()) -> list[Difference]:
        """Return the fields in which another signature differs, except those that are ignored.

        Each part of a prompt counts as a field (``prompt scale``). Its name does not
        count where its hash is known.
        """
        this_fields = _flat(self.fields)
        other_fields = _flat(signature.fields)
        differences = []
        for name in this_fields | other_fields:
            value = this_fields.get(name)
            other_value = other_fields.get(name)
            if value != other_value and name.partition(" ")[0] not in ignored:
                differences.append(Difference(name, _as_text(value), _as_text(other_value)))
        return differences


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
        if not isinstance(content, dict) or "signature" not in content:
            raise ValueError("it holds no signature")
        fields = content["signature"]
        if not isinstance(fields, dict) or not fields:
            raise ValueError("the signature is not an object with fields")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise DreError(
            f"{path}: this is not a summary that dre wrote ({reason:.100}): "
            f"make {output} again, or take the summary away"
        ) from None
    return Summary(Signature(fields), content)


def _flat(fields):
    """Return fields where each part of an object has become a field, such as ``prompt scale``."""
    flat = {}
    for name, value in fields.items():
        if not isinstance(value, dict):
            flat[name] = value
            continue
        for key, entry in value.items():
            if key == "name" and "sha256" in value:
                continue  # the same prompt under another name
            if entry is not None:
                flat[f"{name} {key}"] = entry
    return flat


def _as_text(value) -> str:
    """Return a value of a signature as text: lists with commas, objects as key=value."""
    if isinstance(value, dict):
        entries = [
            f"{key}={_as_text(entry)}"
            for key, entry in value.items()
            if entry not in (None, {}, [])
        ]
        return " ".join(entries)
    if isinstance(value, list):
        return ",".join(_as_text(element) for element in value)
    if isinstance(value, float):
        return f"{value:g}"
    text = str(value)
    is_sha256 = re.fullmatch("[0-9a-f]{64}", text)
    return text[:_HASH_LENGTH] if is_sha256 else text


def _as_line(value):
    """Return the text of a value in a line."""
    return " ".join(_as_text(value).replace("|", "/").split())
