"""Where the small model, a large model and people disagree about rated responses, by rank within each set."""

import re

import numpy as np
import pandas as pd

from dre.correlation import domains, opinions
from dre.data import thirdparty
from dre.errors import DreError

#: who is compared with whom: name -> (first, second); a difference is first minus second
BETWEEN = {"SLM - people": ("slm", "human"), "LLM - people": ("llm", "human"), "SLM - LLM": ("slm", "llm")}
TEXTS = ["pair_id", "context", "response"]


def scores(profile, slm):
    """Return the rated pairs of a profile with the scores of people, of recorded judges and of an SLM.

    A profile without ratings has the test pairs of its first set instead, which nobody has rated: ``human`` is empty.

    Parameters
    ----------
    profile : Profile
        Of its judges only recordings are used, with the public recording of Claude-3-haiku.
    slm : dre.slm.SLM

    Returns
    -------
    (DataFrame, list of (str, str))
        One row a pair and judge: ``set, judge, pair_id, context, response, human, llm, slm``, as scored; and what is
        not there, with the reason.
    """
    found, missing = [], []
    for domain in [domains.read(name) for name in profile.rated] or [domains.labelled(profile)]:
        human = domain.items["human"] if domain.ratings else np.nan
        table = domain.items[TEXTS].assign(set=domain.set, human=human)
        table["slm"] = slm.score(domain.pairs)["score_slm"].to_numpy()
        for opinion in _opinions(profile, domain, missing):
            llm = opinion.scores.set_index("pair_id")["score_llm"]
            part = table.assign(judge=opinion.name, llm=table["pair_id"].map(llm)).dropna(subset="llm")
            found += [part] * (len(part) > 0)
    columns = ["set", "judge", *TEXTS, "human", "llm", "slm"]
    return (pd.concat(found, ignore_index=True)[columns] if found else pd.DataFrame(columns=columns)), missing


def _opinions(profile, domain, missing):
    """The recorded opinions with the LLM-only prompt; what cannot be read is added to `missing`."""
    found = opinions.own([spec for spec in profile.judges if spec.startswith("recorded:")], domain)
    if domain.ratings:
        try:
            found.append(opinions.released(thirdparty.HAIKU, domain))
        except DreError as error:
            missing.append((f"{opinions.NAMES[thirdparty.HAIKU]} on {domain.set}", str(error)))
    return [each for each in found if each is not None and each.scores is not None]


def percentiles(scores):
    """Return the table with ``human, llm, slm`` as rank percentiles, and what a response looks like without its text.

    A percentile is the mean rank within set and judge, in percent of the pairs: (0, 100]. Added are ``words`` (of the
    response) and ``shared`` (percent of its words that the context has, too).
    """
    ranks = scores.groupby(["set", "judge"])[["human", "llm", "slm"]].rank(pct=True) * 100
    looks = [_looks(context, response) for context, response in zip(scores["context"], scores["response"])]
    words, shared = zip(*looks) if looks else ((), ())
    return scores.assign(words=words, shared=shared, **ranks)


def _looks(context, response):
    own, there = _words(response), set(_words(" ".join(context)))
    return len(own), 100 * sum(word in there for word in own) / max(len(own), 1)


def _words(text):
    return re.findall(r"\w+(?:'\w+)?", text.lower())


def largest(table, top=2):
    """Return the pairs with the largest differences, `top` for each set, judge and pair of raters.

    Parameters
    ----------
    table : DataFrame
        From `percentiles`.

    Returns
    -------
    pandas.DataFrame
        Columns ``set, judge, between, pair_id, human, llm, slm, difference`` (percentile points), ``words, shared``.
    """
    parts = []
    for set_name, judge, between, part in _each(table):
        first = part.assign(size=part["difference"].abs()).sort_values(["size", "pair_id"], ascending=[False, True])
        parts.append(first.head(top).assign(set=set_name, judge=judge, between=between))
    columns = ["set", "judge", "between", "pair_id", "human", "llm", "slm", "difference", "words", "shared"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def patterns(table, share=0.1):
    """Return what the responses look like that the first rater places far above, or far below, the second.

    Parameters
    ----------
    table : DataFrame
        From `percentiles`.
    share : float
        Of the pairs, at each end.

    Returns
    -------
    pandas.DataFrame
        ``set, judge, between, n, difference`` (mean absolute, percentile points; two unrelated rankings differ by 33),
        and the means ``words_above, words, words_below, shared_above, shared, shared_below``.
    """
    rows = []
    for set_name, judge, between, part in _each(table):
        part = part.sort_values("difference", kind="stable")
        k = max(round(share * len(part)), 1)
        row = {"set": set_name, "judge": judge, "between": between, "n": len(part)}
        row["difference"] = part["difference"].abs().mean()
        for column in ("words", "shared"):
            ends = {"_above": part.tail(k), "": part, "_below": part.head(k)}
            row |= {f"{column}{end}": rows_[column].mean() for end, rows_ in ends.items()}
        rows.append(row)
    return pd.DataFrame(rows)


def _each(table):
    """Yield (set, judge, between, rows with ``difference``) for every comparison that can be made.

    The SLM and people are compared once a set, beside the first judge.
    """
    seen = set()
    for (set_name, judge), part in table.groupby(["set", "judge"], sort=False):
        for between, (first, second) in BETWEEN.items():
            known = part.dropna(subset=[first, second])
            again = first == "slm" and second == "human" and set_name in seen
            if len(known) and not again:
                yield set_name, judge, between, known.assign(difference=known[first] - known[second])
        seen.add(set_name)


def texts(largest, scores):
    """Return the texts of the pairs that `largest` names: ``between, pair_id, context`` (one text), ``response``."""
    known = scores.drop_duplicates("pair_id").set_index("pair_id")
    shown = largest.drop_duplicates("pair_id")[["between", "pair_id"]]
    context = shown["pair_id"].map(known["context"]).map(" / ".join)
    return shown.assign(context=context, response=shown["pair_id"].map(known["response"])).reset_index(drop=True)


def reading(table):
    """Return what `patterns` shows, as Markdown: a sentence a set and judge."""
    lines = []
    for (set_name, judge), rows in table.groupby(["set", "judge"], sort=False):
        mean = "; ".join(f"{row.between} {row.difference:.0f}" for row in rows.itertuples())
        lines.append(f"**{set_name}, {judge}**: mean difference in percentile points: {mean}. {_slm(rows)}".strip())
    return "\n\n".join(lines)


def _slm(rows):
    """Say what the SLM overrates, against people where there are any."""
    rows = rows[rows["between"].str.startswith("SLM")]
    if rows.empty:
        return ""
    row = rows.iloc[0]
    other = "people" if row["between"] == "SLM - people" else "the LLM"
    longer = "longer" if row["words_above"] > row["words_below"] else "shorter"
    more = "more" if row["shared_above"] > row["shared_below"] else "fewer"
    return (
        f"Responses that the SLM places far above {other} are {longer} than those it places far below "
        f"({row['words_above']:.1f} and {row['words_below']:.1f} words) and share {more} of their words with the "
        f"context ({row['shared_above']:.0f} % and {row['shared_below']:.0f} %)."
    )
