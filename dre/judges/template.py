"""The text of a prompt file: its header, its sections and slots, and the JSON schema that follows from it."""

import math
import re

import yaml

from dre.errors import DreError
from dre.judges.blocks import TEXT_SLOTS

KINDS = ("score", "label", "generate")
KEYS = {"follows", "differs", "kind", "scale", "influence", "criterion", "labels", "output", "delimit"}
SLOT = re.compile(r"\{\{\s*(\w+)\s*(?::([^{}]*))?\}\}")
_SECTION = re.compile(r"^\[(system|user)\][ \t]*$", re.MULTILINE)
_HEADER = re.compile(r"---[ \t]*\n(.*?\n)---[ \t]*\n(.*)", re.DOTALL)


def split(content, where):
    """The header of a template as a dict with every key, and its body.

    Raises
    ------
    dre.errors.DreError
        If there is no header, a key or value is not known, or the slots do not go with it.
    """
    match = _HEADER.fullmatch(content.replace("\r\n", "\n"))
    if not match:
        raise DreError(
            f"{where}: no header: start the file with the lines '---', 'kind: score', 'scale: [0, 5]', '---' "
            "(kind may also be label or generate), then [user] and the text"
        )
    header = _header(match[1], where)
    body = match[2].strip() + "\n"
    _check_slots(body, header, where)
    return header, body


def _header(text, where):
    try:
        header = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DreError(f"{where}: the header is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(header, dict) or not set(header) <= KEYS:
        unknown = ", ".join(map(str, set(header) - KEYS)) if isinstance(header, dict) else repr(header)
        raise DreError(f"{where}: the header has {unknown}, expected keys are {', '.join(sorted(KEYS))}")
    defaults = {"influence": None, "criterion": None, "scale": None, "output": "text", "delimit": True}
    header = defaults | {"follows": "", "differs": "", "labels": None} | header
    if header.get("kind") not in KINDS:
        raise DreError(f"{where}: kind is {header.get('kind')!r}, expected {', '.join(KINDS)}")
    if header["output"] not in ("json", "text"):
        raise DreError(f"{where}: output is {header['output']!r}, expected json or text")
    if not isinstance(header["delimit"], bool):
        raise DreError(f"{where}: delimit is {header['delimit']!r}, expected true or false")
    if (header["kind"] == "score") != (header["scale"] is not None):
        raise DreError(f"{where}: kind score, and only it, needs a line such as 'scale: [0, 5]'")
    for key in ("scale", "influence"):
        header[key] = _range(header[key], f"{where}: {key}")
    header["labels"] = _labels(header, where)
    return header


def _range(value, where):
    if value is None:
        return None
    try:
        low, high = map(float, value)
    except (TypeError, ValueError):
        raise DreError(f"{where} is {value!r}, expected [low, high]") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise DreError(f"{where} is {value!r}, expected two numbers, the lower first")
    return low, high


def _labels(header, where):
    labels = header["labels"] or ({"Positive": "Positive", "Negative": "Negative"} if header["kind"] == "label" else {})
    labels = {{True: "Yes", False: "No"}.get(word, word): meaning for word, meaning in labels.items()}
    if header["kind"] == "label" and set(labels.values()) != {"Positive", "Negative"}:
        raise DreError(f"{where}: labels must map words to both Positive and Negative, found {labels!r}")
    return labels


def fields(header):
    """What a reply must hold, in the order it is asked for."""
    if header["kind"] == "label":
        return ("label",)
    if header["kind"] == "generate":
        return ("positive", "adversarial")
    return ("influence", "score") if header["influence"] else ("score",)


def sections(body, where):
    """Pairs of role and text, the system's first."""
    parts = _SECTION.split(body)
    found = [(role, text.strip()) for role, text in zip(parts[1::2], parts[2::2])]
    roles = [role for role, _ in found]
    if parts[0].strip() or roles not in (["user"], ["system", "user"]):
        raise DreError(
            f"{where}: sections are {roles}, expected [user], or [system] then [user], on lines of their own"
        )
    return found


def _check_slots(body, header, where):
    slots = SLOT.findall(body)
    for name, spec in slots:
        try:
            format(0.5, spec or "")
        except ValueError:
            raise DreError(f"{where}: slot {name} has the number format {spec!r}, expected e.g. .2f") from None
    used = {name for name, _ in slots}
    if not used & set(TEXT_SLOTS):
        raise DreError(f"{where}: no text slot: write {{{{context}}}} and {{{{response}}}} where they belong")
    if header["delimit"] and "notice" not in used:
        raise DreError(
            f"{where}: no {{{{notice}}}} slot: put it before the dialogue, or 'delimit: false' in the header"
        )


def schema(header):
    """JSON schema of a reply; ranges stand in words, because not every provider takes them as keys."""

    def number(key, what):
        low, high = header[key]
        return {"type": "number", "description": f"{what}, from {low:g} to {high:g}"}

    texts = {"type": "array", "items": {"type": "string"}, "description": "exactly five responses"}
    properties = {
        "score": lambda: number("scale", "the score"),
        "influence": lambda: number("influence", "the influence degree"),
        "label": lambda: {"type": "string", "enum": list(header["labels"])},
        "positive": lambda: texts,
        "adversarial": lambda: texts,
    }
    names = fields(header)
    return {
        "type": "object",
        "properties": {name: properties[name]() for name in names},
        "required": list(names),
        "additionalProperties": False,
    }
