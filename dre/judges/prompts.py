"""Prompts as text files: a header that is not sent, then the messages with named slots.

A file is a YAML header between two ``---`` lines, then ``[system]`` and ``[user]`` sections. The header says
what the prompt follows and how its replies are read::

    ---
    follows: DRE section 3.4.1
    differs: what is not as published
    kind: score            # score | label | generate
    scale: [0, 5]          # of score_llm; kind score only
    influence: [0, 1]      # of s_inf; only where the prompt asks for it
    criterion: coherence   # only where one criterion is rated
    labels: {Yes: Positive, No: Negative}   # kind label only; default Positive and Negative
    output: json           # json: a JSON schema goes with the request; text: it does not
    delimit: true          # false: dialogue text is put in without block tags, for a published wording
    ---

Slots: ``{{context}} {{response}} {{reference}} {{facts}} {{positives}} {{adversarials}} {{feedback}}`` are
text and become delimited blocks; ``{{notice}}`` says that the blocks are data and is required where there are
any; every other slot is a number of the row and may carry a format, as in ``{{slm_accuracy:.1%}}``.
``{{similarity}}`` is 1 - s_d.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dre.errors import DreError
from dre.judges import parse, template
from dre.judges.blocks import NOTICE, TEXT_SLOTS, Blocks
from dre.judges.settings import canonical, sha256

FOLDER = Path(__file__).parent / "prompts"


@dataclass(frozen=True)
class Prompt:
    """A prompt: what is sent, and how the reply is read.

    Attributes
    ----------
    name : str
        Name of the built-in prompt, or the stem of the file.
    template : str
        The body, slots unfilled.
    schema : dict or None
        JSON schema of the reply, for providers with structured output. Ranges stand in the descriptions only,
        because not every provider takes ``minimum``; the parser enforces them.
    sha256 : str
        Of everything that reaches the model apart from the row: messages, schema, form of the text blocks.
    kind : {"score", "label", "generate"}
    scale : tuple of float or None
        Lowest and highest score (kind ``score``).
    fields : tuple of str
        What a reply must hold: ``score``, ``influence`` and ``score``, ``label``, or ``positive`` and
        ``adversarial``.
    influence : tuple of float or None
        Range of the influence degree s_inf.
    criterion : str or None
    labels : dict
        Word of the reply -> ``Positive`` or ``Negative`` (kind ``label``).
    delimit : bool
    follows, differs : str
        The section it follows, and what is not as published.
    """

    name: str
    template: str
    schema: dict | None = field(hash=False)
    sha256: str
    kind: str
    scale: tuple[float, float] | None
    fields: tuple[str, ...]
    influence: tuple[float, float] | None = None
    criterion: str | None = None
    labels: dict[str, str] = field(default_factory=dict, hash=False)
    delimit: bool = True
    follows: str = ""
    differs: str = ""

    @functools.cached_property
    def slots(self):
        """Names of the slots, in order of appearance."""
        return tuple(dict.fromkeys(name for name, _ in template.SLOT.findall(self.template)))

    @functools.cached_property
    def reading(self):
        """Hash of what says how replies are read: the header may change while what is sent stays the same."""
        names = ("kind", "scale", "fields", "influence", "criterion", "labels")
        return sha256(canonical({name: getattr(self, name) for name in names}))[:16]

    def render(self, row: Mapping):
        """Fill the slots with a row.

        Parameters
        ----------
        row : mapping
            ``context`` (tuple of turns, oldest first), ``response``, and whatever else the slots name.

        Returns
        -------
        list of dict
            ``{"role": "system" | "user", "content": str}``. The same row always gives the same text.

        Raises
        ------
        DreError
            If the row lacks a slot, or a value has the wrong type.
        """
        blocks = Blocks({slot: row.get(slot) for slot in self._texts}, self.delimit, self._where(row))

        def fill(name, spec):
            if name == "notice":
                return blocks.notice()
            if name in TEXT_SLOTS:
                return blocks.block(name)
            return format(self._number(name, row), spec or ".4g")

        messages = []
        for role, parts in self._parts:
            texts = parts.copy()
            texts[1::3] = map(fill, parts[1::3], parts[2::3])
            del texts[2::3]
            messages.append({"role": role, "content": "".join(texts)})
        return messages

    @functools.cached_property
    def _texts(self):
        return [slot for slot in self.slots if slot in TEXT_SLOTS]

    @functools.cached_property
    def _parts(self):
        """Role -> text, slot, format, text, slot, ..., text."""
        return [(role, template.SLOT.split(text)) for role, text in template.sections(self.template, self.name)]

    def parse(self, reply: str, row: Mapping | None = None):
        """Read a reply; see `dre.judges.parse` for the rules.

        Parameters
        ----------
        reply : str
        row : mapping, optional
            The row the prompt was rendered with: words quoted from it are never taken for the verdict.

        Returns
        -------
        dre.judges.parse.Verdict
        """
        return parse.read(reply, self, row or {})

    def _where(self, row):
        return f"prompt {self.name}, pair {row.get('pair_id', '(no pair_id)')}"

    def _number(self, name, row):
        if name == "similarity" and row.get("similarity") is None:
            return 1 - self._number("s_d", row)
        value = row.get(name)
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if isinstance(value, (str, bool)) or not math.isfinite(number):
            raise DreError(
                f"{self._where(row)}: slot {name} needs a number, but the row has {value!r}: "
                f"add the column {name}, or use a prompt without it"
            )
        return number


def names():
    """Names of the built-in prompts."""
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


def load(name_or_path):
    """Load a built-in prompt by name, or any template file by path (``--prompt-file``).

    Raises
    ------
    DreError
        If there is no such prompt or file, or its header or sections are not as the module describes.
    """
    text = str(name_or_path)
    if text in names():
        path = FOLDER / f"{text}.txt"
    else:
        path = Path(text)
        if not path.is_file():
            raise DreError(f"no prompt {text!r}: give the path of a template file, or one of {', '.join(names())}")
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DreError(f"{path}: cannot be read as UTF-8 text: {error}") from None
    return from_text(path.stem, content, str(path) if path.parent != FOLDER else text)


def from_text(name, content, where=None):
    """Make a prompt of the text of a template file; `where` names it in messages."""
    where = where or name
    header, body = template.split(content, where)
    schema = template.schema(header) if header["output"] == "json" else None
    messages = template.sections(body, where)
    sent = {
        "messages": messages,
        "schema": schema,
        "delimit": header["delimit"],
        "notice": NOTICE,
    }
    return Prompt(
        name=name,
        template=body,
        schema=schema,
        sha256=sha256(canonical(sent)),
        fields=template.fields(header),
        **{key: header[key] for key in sorted(template.KEYS - {"output"})},
    )
