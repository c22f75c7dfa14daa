"""What a reader of scores has to know besides: replies without a score, texts that a model read in part or misread."""

import re

WORD = re.compile(r"\w+")
PIECES = 1.35  # tokens a word; of English texts, by a tokeniser that knows English, 1.0 to 1.25
ECHOES = 0.25  # share of a system's replies; of eight systems and sets that people rated 0.09 at most
SAMPLE, FEW = 1000, 20  # replies of a system that are looked at; fewer words tell no language


def notes(table, pairs, summary, slm=None):
    """Return sentences on scores (``table``), the pairs they are of, and their summary; ``slm`` is None if not used."""
    said = [*_missing(table, pairs), *_unequal(summary)]
    for part, which in (("response", "beginning"), ("context", "end")):
        if cut := table["reason"].str.contains(f"the {part} is cut").sum():
            said.append(f"{cut:,} {part}s are longer than the encoder reads; only their {which} counts")
    for system, rows in pairs.groupby("system") if slm is not None else ():
        rows, name = rows.head(SAMPLE), f" of {system!r}" if system else ""
        said += [*_foreign(rows, name, slm.encoder.tokenizer), *_echoes(rows, name)]
    return said


def _missing(table, pairs):
    """How many pairs of each system have no score, by what became of the judge's reply."""
    for (system, status), rows in table[table["status"] != "ok"].groupby(["system", "status"]):
        name, first = f" of {system!r}" if system else "", pairs.loc[rows.index[0], "pair_id"]
        about = f"{status} (first {first}: {rows['reason'].iloc[0]})"
        yield f"{len(rows):,} pairs{name} have no score: the judge's reply is {about}"


def _unequal(summary):
    """Whether means are over different contexts, which may favour who has no score where it is bad."""
    shared, every = summary["shared_contexts"], summary["contexts"]
    if len(summary["systems"]) > 1 and shared < every:
        yield (
            f"only {shared:,} of {every:,} contexts have a score of every system: means are of different contexts; "
            "trust the comparisons (each on the contexts of both), which the ranks are made of"
        )


def _foreign(rows, name, tokenizer):
    """Whether the tokeniser breaks the words of a system's texts into pieces, as of a language it does not know."""
    for part, texts in (("contexts", rows["context"].map(" ".join)), ("responses", rows["response"])):
        texts = list(dict.fromkeys(texts))
        words = sum(len(WORD.findall(text)) for text in texts)
        marks = sum(len(re.findall(r"[^\w\s]", text)) for text in texts)
        tokens = sum(map(len, tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"])) - marks
        if words >= FEW and tokens / words > PIECES:
            found = f"its tokeniser makes {tokens / words:.1f} pieces of a word, of English 1.0"
            yield f"{part}{name} look like no language that the SLM knows ({found}): do not trust its scores"


def _echoes(rows, name):
    """Whether many replies hold nothing but words of their context, which a small model takes for likeness."""
    words = [WORD.findall(text.lower()) for text in rows["response"]]
    known = [set(WORD.findall(" ".join(turns).lower())) for turns in rows["context"]]
    echoes = sum(len(said) > 3 and known_words.issuperset(said) for said, known_words in zip(words, known))
    if echoes > ECHOES * len(rows):
        yield f"{echoes:,} of {len(rows):,} replies{name} only repeat words of their context: an SLM may reward that"
