"""What a reader of scores has to know besides: replies without a score, texts that a model read in part or misread."""

import re

PIECES = 1.35  # tokens a word; of English texts, by a tokeniser that knows English, 1.0 to 1.25
ECHOES = 0.25  # share of a system's replies; in seven sets that people rated, 0.09 at most
SAMPLE, FEW = 1000, 20  # replies of a system that are looked at; fewer words tell no language


def notes(table, pairs, summary, slm=None):
    """Return sentences on scores (``table``), the pairs they are of, and their summary; ``slm`` is None if not used."""
    said, shared, every = [], summary["shared_contexts"], summary["contexts"]
    for (system, status), rows in table[table["status"] != "ok"].groupby(["system", "status"]):
        about = f"{status} (first {pairs['pair_id'][rows.index[0]]}: {rows['reason'].iloc[0]})"
        said.append(f"{len(rows):,} pairs{_of(system)} have no score: the judge's reply is {about}")
    if len(summary["systems"]) > 1 and shared < every:
        some = f"only {shared:,} of {every:,} contexts have a score of every system, so means are of different ones"
        said.append(
            f"{some}: look at the comparisons, each on the contexts of both, which the ranks are made of"
        )
    for part, which in (("response", "beginning"), ("context", "end")):
        if cut := table["reason"].str.contains(f"the {part} is cut").sum():
            said.append(
                f"{cut:,} {part}s are longer than the encoder reads; only their {which} counts"
            )
    for system, rows in pairs.groupby("system") if slm is not None else ():
        rows = rows.head(SAMPLE)
        for part, texts in (
            ("contexts", rows["context"].map(" ".join)),
            ("responses", rows["response"]),
        ):
            if (pieces := _pieces(texts, slm.encoder.tokenizer)) > PIECES:
                how = f"it makes {pieces:.1f} pieces of a word, of English 1.0"
                said.append(
                    f"{part}{_of(system)} are in no language that the SLM knows ({how}): distrust its scores"
                )
        if (echoes := _echoes(rows)) > ECHOES * len(rows):
            what = "only repeat words of their context: an SLM may reward that"
            said.append(f"{echoes:,} of {len(rows):,} replies{_of(system)} {what}")
    return said


def _of(system):
    return f" of {system!r}" if system else ""


def _pieces(texts, tokenizer):
    """Into how many pieces a tokeniser breaks a word: many of a language it does not know; 0 of too few words."""
    texts = texts.unique().tolist()
    words, marks = (
        sum(len(re.findall(pattern, text)) for text in texts) for pattern in (r"\w+", r"[^\w\s]")
    )
    tokens = sum(map(len, tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]))
    return (tokens - marks) / words if words >= FEW else 0


def _echoes(rows):
    """How many replies of more than three words hold nothing but words of their context."""
    words = [re.findall(r"\w+", text.lower()) for text in rows["response"]]
    known = [set(re.findall(r"\w+", " ".join(turns).lower())) for turns in rows["context"]]
    return sum(len(own) > 3 and there.issuperset(own) for own, there in zip(words, known))
