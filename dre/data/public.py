"""Public dialogues as three-turn contexts with their original reply: ConvAI2 (PersonaChat) and Topical-Chat.

A context is the last utterance before it, the reply to that, and the utterance to answer.
"""

from dre.data import parse
from dre.data.fetch import local
from dre.data.records import Context
from dre.data.registry import find
from dre.errors import DreError

TURNS = 3


def convai2():
    """Return the contexts of ConvAI2 validation: ids ``convai2-valid/<line, from 0>``, facts the persona."""
    source = local(find("convai2", "_source.txt"))
    return read_convai2(source, local(find("convai2", "_target.txt")))


def read_convai2(source, target):
    """Return the contexts of a source file (persona, last utterance, by tab) and a target file (replies).

    Consecutive lines with one persona are one dialogue; its first line has no utterance before it and is left
    out.
    """
    lines = [(where, line.rstrip("\r").split("\t")) for where, line in parse.read_lines(source)]
    replies = [line.strip() for _, line in parse.read_lines(target)]
    if len(lines) != len(replies):
        raise DreError(f"{source} has {len(lines)} lines and {target} {len(replies)}: get both files again")
    found = []
    for i in range(1, len(lines)):
        (_, (*earlier, before)), (where, (*persona, last)) = lines[i - 1], lines[i]
        if not persona:
            raise DreError(f"{where}: no tab: expected the persona and the last utterance, separated by tabs")
        if earlier == persona:
            turns = (before.strip(), replies[i - 1], last.strip())
            facts = "\n".join(fact.strip() for fact in persona)
            found.append(
                Context(
                    "convai2",
                    f"convai2-valid/{i}",
                    "train",
                    turns,
                    (replies[i],),
                    domain="persona",
                    facts=facts,
                )
            )
    return found


def topical_chat(name):
    """Return the contexts of Topical-Chat: ids ``<name>/<conversation>/<turn of the reply, from 0>``."""
    return read_topical_chat(local(find("topical-chat", f"{name.removeprefix('topicalchat-')}.json")), name)


def read_topical_chat(path, name):
    """Return the contexts of a Topical-Chat conversations file."""
    found = []
    for conversation, record in parse.read_json_object(path).items():
        where = f"{path}: conversation {conversation}"
        parse.check(record, dict, "the conversation", where)
        messages = [
            parse.field(parse.check(turn, dict, f"turn {k}", where), "message", str, where).strip()
            for k, turn in enumerate(parse.field(record, "content", list, where))
        ]
        found += [
            Context(
                "topicalchat",
                f"{name}/{conversation}/{k}",
                "train",
                tuple(messages[k - TURNS : k]),
                (messages[k],),
                domain="topical",
            )
            for k in range(TURNS, len(messages))
        ]
    return found
