"""Responses with human ratings: PersonaChat-USR, TopicalChat-USR, DailyDialog-Zhao and FED."""

import math
from collections import Counter

from dre.data import parse
from dre.data.fetch import local
from dre.data.records import Rated
from dre.data.registry import find
from dre.errors import DreError

REFERENCE = "Original Ground Truth"
USR_CRITERIA = {
    "understandable": "Understandable",
    "natural": "Natural",
    "maintains_context": "Maintains Context",
    "engaging": "Engaging",
    "uses_knowledge": "Uses Knowledge",
    "overall": "Overall",
}
USR_FILES = {"personachat-usr": "usr_percona_chat.json", "topicalchat-usr": "usr_topical_chat.json"}


def usr(name):
    """Return PersonaChat-USR (300 responses) or TopicalChat-USR (360), 60 contexts each, three raters.

    Overall is on 1-5, understandable and uses_knowledge on 0-1, the others on 1-3. The reference is the
    response of the system "Original Ground Truth", which is itself rated.
    """
    return read_usr(local(find("usr", USR_FILES[name])), name)


def read_usr(path, name):
    """Return the rated responses of a USR file; pair ids are ``<set>/<context index>/<response index>``."""
    rated = []
    for i, (where, record) in enumerate(parse.read_json_array(path)):
        turns = context_turns(parse.field(record, "context", str, where), where)
        facts = parse.field(record, "fact", str, where).strip()
        responses = [
            parse.check(r, dict, f"response {k}", where)
            for k, r in enumerate(parse.field(record, "responses", list, where))
        ]
        systems = [parse.field(r, "model", str, where) for r in responses]
        spoken = [parse.field(r, "response", str, where).strip() for r in responses]
        reference = dict(zip(systems, spoken)).get(REFERENCE)
        for k, response in enumerate(responses):
            ratings = {c: _ratings(response, field, where) for c, field in USR_CRITERIA.items()}
            ids = (name, f"{name}/{i}/{k}", f"{name}/{i}")
            rated.append(Rated(*ids, turns, spoken[k], systems[k], reference, facts, ratings))
    return rated


def zhao():
    """Return DailyDialog-Zhao: 900 responses, nine to each of 100 contexts.

    The file holds only the mean overall rating (1-5) of each response, so there is one value and no rater
    agreement; it does not name the systems. Pair ids are ``dailydialog-zhao/<row>``; context ids
    ``dailydialog-zhao/context-<n>`` number the distinct contexts.

    The reference is the first of the nine responses. The file does not say so, but wherever DailyDialog++
    shows how one of these dialogues went on, the next turn is the first response and never another (a test
    checks this). It is itself rated, so a metric that compares with the reference should leave it out.
    """
    return read_zhao(local(find("xdial-eval", "dailydialog-zhao.csv")))


def read_zhao(path):
    """Return the rated responses of a CSV file with the columns ``english_ctx, english_res, ratings``."""
    name, rated, numbers, references = "dailydialog-zhao", [], {}, {}
    for row, (where, record) in enumerate(parse.read_csv(path)):
        turns = context_turns(parse.field(record, "english_ctx", str, where), where)
        number = numbers.setdefault(turns, len(numbers))
        overall = parse.number(parse.field(record, "ratings", str, where), "the rating", where)
        response = parse.field(record, "english_res", str, where).strip()
        reference = references.setdefault(turns, response)
        ids = (name, f"{name}/{row}", f"{name}/context-{number}")
        rated.append(Rated(*ids, turns, response, "", reference, "", {"overall": (overall,)}))
    return rated


def fed():
    """Return FED-turn: 375 responses, five raters; ids are ``fed-turn/<index in fed_data.json>``."""
    return read_fed(local(find("fed", "fed_data.json")))


def read_fed(path):
    """Return the turn-level records of a FED file.

    Records without a response rate a whole dialogue and are left out; the turns before each are taken from
    it, so they share its index as context id and are resampled together. Overall is on 0-4; the other
    criteria on 0-1 or 0-2. Where a rater wrote text instead of a number ("N/A (...)") the rating is NaN, and
    a mean is over the others: `non_numeric` counts them.
    """
    rated, waiting = [], []
    for i, (where, record) in enumerate(parse.read_json_array(path)):
        text = parse.field(record, "context", str, where)
        if "response" not in record:
            rated += _conversation(waiting, i, text, where)
            waiting = []
            continue
        annotations = parse.field(record, "annotations", dict, where)
        waiting.append(
            dict(
                i=i,
                text=text,
                turns=tuple(_unspoken(line) for line in context_turns(text, where)),
                response=_unspoken(parse.field(record, "response", str, where).strip()),
                system=parse.field(record, "system", str, where),
                ratings={c.lower().replace(" ", "_"): _ratings(annotations, c, where, words=True) for c in annotations},
            )
        )
    if waiting:
        raise DreError(f"{path}: {len(waiting)} turns at the end belong to no dialogue: the file is truncated")
    return rated


def _conversation(turns, index, dialogue, where):
    for turn in turns:
        if not dialogue.startswith(turn["text"]):
            raise DreError(f"{where}: the turns before this dialogue are not taken from it: get the file again")
        if "overall" not in turn["ratings"]:
            raise DreError(f"{where}: record {turn['i']} has no overall rating")
    return [
        Rated(
            set="fed-turn",
            pair_id=f"fed-turn/{turn['i']}",
            context_id=f"fed-turn/dialogue-{index}",
            turns=turn["turns"],
            response=turn["response"],
            system=turn["system"],
            reference=None,
            facts="",
            ratings=turn["ratings"],
        )
        for turn in turns
    ]


def context_turns(text, where):
    """Return the turns of a context written one a line, stripped, without empty lines."""
    turns = tuple(line.strip() for line in text.split("\n") if line.strip())
    if not turns:
        raise DreError(f"{where}: the context is empty")
    return turns


def _unspoken(line):
    """Drop the speaker FED puts before each turn: turns are text only in every set."""
    for speaker in ("User:", "System:"):
        if line.startswith(speaker):
            return line[len(speaker) :].strip()
    return line


def _ratings(record, name, where, words=False):
    values = parse.field(record, name, list, where)
    if not values:
        raise DreError(f"{where}: {name!r} has no rating")
    return tuple(
        math.nan if words and isinstance(value, str) else parse.number(value, f"a rating of {name!r}", where)
        for value in values
    )


def non_numeric(rated):
    """Return how many ratings of each criterion are no number, as a dict of the criteria that have any."""
    counts = Counter(c for record in rated for c, values in record.ratings.items() for v in values if math.isnan(v))
    return dict(counts)
