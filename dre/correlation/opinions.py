"""What judges said of the items: recorded by this project, recorded by others, or asked live."""

import re
from dataclasses import dataclass

import pandas as pd

from dre import fusion, judges
from dre.data import thirdparty
from dre.judges import prompts
from dre.judges.providers import PROVIDERS
from dre.report.signature import named

#: the paper's judges by the name Table 4 gives them; only the very model counts as one of them
PAPER = {
    "GPT-3.5": r"gpt-3\.5-turbo-1106",
    "Claude3": r"claude-3-haiku(-20240307)?",
    "Gemini": r"gemini-1\.5-flash(-\d+)?",
    "llama3.3-70B": r"llama3\.3(:70b.*)?",
    "Qwen2.5-72B": r"qwen2\.5:72b.*",
    "DeepSeek-R1-70B": r"deepseek-r1:70b.*",
}
GPT35 = {  # prompt of the released replies -> (name, published row)
    "geval": ("GPT-3.5-0613 G-Eval", "G-EVAL (GPT-3.5)"),
    "analyze_rate": ("GPT-3.5-0613 analyse-rate", "LLM-Chiang (GPT-3.5)"),
    "rate_explain": ("GPT-3.5-0613 rate-explain", None),
}
NAMES = {
    thirdparty.HAIKU: "Claude-3-haiku",
    "llama2-13b": "Llama2-13B",
    "qwen-14b": "Qwen-14B",
    "vicuna-13b": "Vicuna-13B",
    "baichuan2-13b": "Baichuan2-13B",
    "chatglm3-6b": "ChatGLM3-6B",
}
RELEASED_ON = ("personachat-usr", "topicalchat-usr", "fed-turn")  # the sets that the judges of NAMES scored


@dataclass(frozen=True, eq=False)
class Opinion:
    """One judge on one domain.

    Attributes
    ----------
    name, how : str
        The judge, and how it was asked.
    scores : DataFrame or None
        ``pair_id, score_llm`` (0-5), ``status``, from the LLM-only prompt or one like it; None if it was not asked.
    refined : DataFrame or None
        ``pair_id, score_llm, s_inf, status`` (and ``s_d, s_p`` as they stood in the prompt, if a recording froze
        them) from the prompt of interior refinement.
    paper : str or None
        Its name in Table 4.
    published : tuple of str
        Rows of Table 4 that its score alone fills, besides LLMs-only and Non-DRE.
    prompt, refined_prompt : str
        What was asked for `scores` and for `refined`: the prompt's name and hash, as far as it is known.
    replies, malformed : int
        Replies behind `scores`, and those among them without a usable score.
    """

    name: str
    how: str
    scores: pd.DataFrame | None
    replies: int
    malformed: int
    refined: pd.DataFrame | None = None
    paper: str | None = None
    published: tuple = ()
    prompt: str = ""
    refined_prompt: str = ""


def paper_name(model):
    """Return the name Table 4 gives a model, or None if the paper did not ask this very model."""
    return next((name for name, pattern in PAPER.items() if re.fullmatch(pattern, model, re.IGNORECASE)), None)


def opinions(profile, domain, inputs=None):
    """Return the opinions there are of a domain: the profile's judges first, then what others released.

    Parameters
    ----------
    profile : Profile
    domain : dre.correlation.domains.Domain
    inputs : DataFrame, optional
        What the prompt of interior refinement shows, of `dre.correlation.inputs`; needed by live judges for In-DRE
        and DRE.
    """
    found = own(profile.judges, domain, inputs) + [released(judge, domain) for judge in NAMES]
    return [each for each in found if each is not None] + gpt35(domain)


def own(specs, domain, inputs=None):
    """Return the opinions of judges as a profile names them; recordings of one model with other prompts are one.

    A recording that knows nothing of the domain gives none.
    """
    models = {}
    for spec in specs:
        judge = judges.open(spec)
        models.setdefault(model_name(judge), []).append(judge)
    found = [_of_model(name, of_model, domain, inputs) for name, of_model in models.items()]
    return [each for each in found if each is not None]


def model_name(judge):
    """Return the name of a judge's model; a recording that does not say which it is goes by its own name."""
    if not _recorded(judge):
        return judge.spec.partition(":")[2]
    provider, colon, model = str(judge.manifest.get("judge", "")).partition(":")
    return model if colon and provider in PROVIDERS else judge.recording.name


def ask(judge, pairs, prompt):
    """Return a judge's table for some pairs, or None where a recording holds none of them with this prompt."""
    if not _recorded(judge):
        return judge.score(pairs, prompt)
    if prompt not in judge.recording.readings:
        return None
    table = judge.score(pairs, prompt, missing="keep")
    return None if (table["status"] == "missing").all() else table


def _recorded(judge):
    return judge.spec.startswith("recorded:")


def _of_model(name, of_model, domain, inputs):
    """One opinion out of the judges of one model: the first that has the prompt, for each of the two prompts."""
    scores, how, refined, asked = None, "dre prompt only", None, {}
    for judge in of_model:
        if scores is None and (scores := ask(judge, domain.pairs, "llm_only")) is not None:
            how = f"LLM-only prompt, {'recorded' if _recorded(judge) else 'live'}"
            asked["prompt"] = _prompt(judge, "llm_only")
        if refined is None and (refined := _refined(judge, domain, inputs)) is not None:
            asked["refined_prompt"] = _prompt(judge, "dre")
    if scores is None and refined is None:
        return None
    return Opinion(name, how, scores, *counts(scores), refined, paper_name(name), **asked)


def _prompt(judge, name):
    """The name and hash of a prompt as this judge was really asked."""
    return named(name, judge.recording.prompt_sha256(name) if _recorded(judge) else prompts.load(name).sha256)


def counts(table):
    """Return how many replies stand behind a judge's table, and how many of them have no usable score."""
    if table is None:
        return 0, 0
    replies, ok = int(table["n_samples"].sum()), int(table["n_ok"].sum())
    return replies, replies - ok


def _refined(judge, domain, inputs):
    """The replies to the prompt of interior refinement, where there are any or the judge can be asked."""
    if _recorded(judge):
        from dre.correlation.inputs import beside

        replies, known = ask(judge, domain.pairs, "dre"), beside(judge)
    elif inputs is None:
        return None
    else:
        known = inputs.drop(columns="slm")
        replies = ask(judge, domain.pairs.merge(known, on="pair_id"), "dre")
    if replies is None or known is None:
        return replies
    return replies.merge(known[["pair_id", "s_d", "s_p"]], on="pair_id", how="left")


def released(judge, domain):
    """Return the opinion of a judge (a key of `NAMES`) whose scores others released, or None if not on this domain."""
    if domain.set not in RELEASED_ON:  # asked first: their files are public data, which profile mini does without
        return None
    rows = thirdparty.judge_scores(judge)
    rows = rows[rows["pair_id"].isin(set(domain.items["pair_id"]))]
    if rows.empty:
        return None
    table = rows.rename(columns={"score": "score_llm"})[["pair_id", "score_llm"]]
    scale, how = ((1, 5), "overall 1-5") if judge == thirdparty.HAIKU else ((0, 1), "P(yes) of one question")
    scores, how = fusion.to_llm_scale(table, *scale).assign(status="ok"), f"{how}, others' prompt"
    return Opinion(NAMES[judge], how, scores, len(scores), 0, paper=paper_name(judge), prompt="others' own")


def overview(found):
    """Return who was asked, and how many replies have a score: one row a domain and judge.

    Parameters
    ----------
    found : dict of str to list of Opinion
        Label of the domain -> its opinions.
    """
    rows = []
    for label, part in found.items():
        for each in part:
            table = each.refined if each.scores is None else each.scores
            replies, malformed = counts(table) if each.scores is None else (each.replies, each.malformed)
            row = {
                "domain": label,
                "judge": each.name,
                "asked": each.how,
                "pairs": int((table["status"] == "ok").sum()),
            }
            rows.append(row | {"replies": replies, "malformed": malformed, "the paper's judge": each.paper or ""})
    return pd.DataFrame(rows)


def gpt35(domain):
    """Return the opinions in the released GPT-3.5-turbo-0613 replies: 20 samples, four criteria, three prompts.

    A pair's score is the mean over samples of each criterion, brought to 0-1, then the mean over the four criteria;
    a pair that lacks one of them has no score. They are of TopicalChat-USR; another domain has none.
    """
    if domain.set != "topicalchat-usr":
        return []
    from dre.judges import gpt35 as replies

    verdicts = replies.verdicts()
    found = []
    for prompt, (name, row) in GPT35.items():
        part = verdicts[verdicts["prompt"] == prompt]
        means = part.groupby(["pair_id", "criterion"])["score_llm"].mean().unstack("criterion")
        for criterion in means:
            low, high = prompts.load(f"{replies.READ_AS[prompt]}_{criterion}").scale
            means[criterion] = (means[criterion] - low) / (high - low)
        mean = means.mean(axis=1, skipna=False).reindex(domain.items["pair_id"])
        table = pd.DataFrame({"pair_id": mean.index, "score_llm": mean.to_numpy()})
        scores = fusion.to_llm_scale(table, 0, 1)
        scores["status"] = scores["score_llm"].notna().map({True: "ok", False: "malformed"})
        bad = int((part["status"] != "ok").sum())
        how = "mean of 4 criteria x 20 samples"
        filled = (row,) if row else ()
        found.append(Opinion(name, how, scores, len(part), bad, published=filled, prompt=f"others' own ({prompt})"))
    return found
