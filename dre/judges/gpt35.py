"""What our parser makes of recorded GPT-3.5 replies, and how the ratings agree with people.

The replies are GPT-3.5-turbo-0613's, 20 an item, on TopicalChat-USR (Chiang and Lee, 2023). Scales, as their prompts
state them and the human ratings have them: coherence, engagingness and naturalness 1-3, groundedness 0-1.
"""

from pathlib import Path

import pandas as pd

from dre.data import sets, thirdparty
from dre.data.records import rated_table
from dre.judges import prompts, sampling

HUMAN = {
    "coherence": "maintains_context",
    "engagingness": "engaging",
    "groundedness": "uses_knowledge",
    "naturalness": "natural",
}
READ_AS = {"geval": "geval", "analyze_rate": "chiang", "rate_explain": "chiang"}
RESULT = "gpt35_replies.csv"


def verdicts(replies=None):
    """Parse the recorded replies.

    Parameters
    ----------
    replies : pandas.DataFrame, optional
        As `dre.data.thirdparty.gpt35_replies` gives them, which is the default.

    Returns
    -------
    pandas.DataFrame
        ``pair_id, criterion, prompt, repeat, score_llm, status, reason``.
    """
    replies = thirdparty.gpt35_replies() if replies is None else replies
    rated = {item.pair_id: item for item in sets.rated("topicalchat-usr")}
    rows = {
        pair_id: {"context": item.turns, "response": item.response, "facts": item.facts}
        for pair_id, item in rated.items()
    }
    readings = {
        (criterion, prompt): prompts.load(f"{family}_{criterion}")
        for criterion in HUMAN
        for prompt, family in READ_AS.items()
    }
    read = [
        readings[criterion, prompt].parse(reply, rows[pair_id])
        for pair_id, criterion, prompt, reply in replies[["pair_id", "criterion", "prompt", "reply"]].itertuples(
            index=False
        )
    ]
    names = ("score_llm", "status", "reason")
    columns = {name: [getattr(verdict, name) for verdict in read] for name in names}
    return replies[["pair_id", "criterion", "prompt", "repeat"]].assign(**columns)


def agreement(table=None):
    """Agreement of the mean of the 20 ratings with the mean human rating of the same criterion.

    Parameters
    ----------
    table : pandas.DataFrame, optional
        As `verdicts` gives it, which is the default.

    Returns
    -------
    pandas.DataFrame
        One row a criterion and prompt: ``criterion, prompt, n_items`` (with at least one rating), ``n_replies,
        n_malformed, n_refused, n_other`` (empty or truncated), ``pearson, spearman``.
    """
    table = verdicts() if table is None else table
    human = rated_table(sets.rated("topicalchat-usr")).set_index("pair_id")
    rows = []
    for (criterion, prompt), replies in table.groupby(["criterion", "prompt"]):
        scores = replies.groupby("pair_id")["score_llm"].agg(sampling.mean).dropna()
        people = human[HUMAN[criterion]].reindex(scores.index)
        counts = replies["status"].value_counts()
        malformed, refused = int(counts.get("malformed", 0)), int(counts.get("refused", 0))
        rows.append(
            {
                "criterion": criterion,
                "prompt": prompt,
                "n_items": len(scores),
                "n_replies": len(replies),
                "n_malformed": malformed,
                "n_refused": refused,
                "n_other": len(replies) - int(counts.get("ok", 0)) - malformed - refused,
                "pearson": scores.corr(people),
                "spearman": scores.corr(people, method="spearman"),
            }
        )
    return pd.DataFrame(rows)


def write(folder):
    """Write `agreement` to ``gpt35_replies.csv`` in a folder such as ``results/public``, and return it."""
    table = agreement()
    path = Path(folder) / RESULT
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False, float_format="%.4f", lineterminator="\n")
    return table
