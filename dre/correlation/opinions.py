"""What judges said of the items: recorded by this project, recorded by others, or asked live."""

import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from dre import fusion, judges
from dre.data import thirdparty

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


@dataclass(frozen=True, eq=False)
class Opinion:
    """One judge on one domain.

    Attributes
    ----------
    name, how : str
        The judge, and how it was asked.
    scores : DataFrame
        ``pair_id, score_llm`` (0-5), ``status``; for a judge that has the LLM-only prompt or one like it.
    refined : DataFrame or None
        ``pair_id, score_llm, s_inf, status`` (and ``s_d, s_p`` as they stood in the prompt, if a recording froze
        them) from the prompt of interior refinement.
    paper : str or None
        Its name in Table 4.
    published : tuple of str
        Rows of Table 4 that its score alone fills, besides LLMs-only and Non-DRE.
    replies, malformed : int
        Replies read, and those among them without a usable score.
    """

    name: str
    how: str
    scores: pd.DataFrame
    replies: int
    malformed: int
    refined: pd.DataFrame | None = None
    paper: str | None = None
    published: tuple = ()


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
    found = [_of_profile(spec, domain, inputs) for spec in profile.judges]
    if domain.set in ("personachat-usr", "topicalchat-usr"):
        found += [_thirdparty(judge, domain) for judge in NAMES]
    if domain.set == "topicalchat-usr":
        found += gpt35(domain)
    return [each for each in found if each is not None]


def _of_profile(spec, domain, inputs):
    """A judge the profile names, or None if a recording knows nothing of the domain."""
    judge = judges.open(spec)
    recorded = spec.startswith("recorded:")
    model = spec.partition(":")[2]
    options = {"missing": "keep"} if recorded else {}
    scores = judge.score(domain.pairs, "llm_only", **options)
    if (scores["status"] == "missing").all():
        return None
    how = "LLM-only prompt, recorded" if recorded else "LLM-only prompt, live"
    replies, ok = int(scores["n_samples"].sum()), int(scores["n_ok"].sum())
    refined = _refined(judge, domain, inputs)
    return Opinion(model, how, scores, replies, replies - ok, refined, paper_name(model))


def _refined(judge, domain, inputs):
    """The replies to the prompt of interior refinement, where there are any or the judge can be asked."""
    if not judge.spec.startswith("recorded:"):
        if inputs is None:
            return None
        known = inputs.drop(columns="slm")
        return judge.score(domain.pairs.merge(known, on="pair_id"), "dre").merge(known[["pair_id", "s_d", "s_p"]])
    if "dre" not in set(judge.recording.table["prompt"]):
        return None
    replies = judge.score(domain.pairs, "dre", missing="keep")
    if (replies["status"] == "missing").all():
        return None
    from dre.correlation.inputs import beside

    frozen = beside(judge.recording.name)
    return replies if frozen is None else replies.merge(frozen[["pair_id", "s_d", "s_p"]], on="pair_id", how="left")


def _thirdparty(judge, domain):
    rows = thirdparty.judge_scores(judge)
    rows = rows[rows["pair_id"].isin(set(domain.items["pair_id"]))]
    table = rows.rename(columns={"score": "score_llm"})[["pair_id", "score_llm"]]
    scale, how = ((1, 5), "overall 1-5") if judge == thirdparty.HAIKU else ((0, 1), "P(yes) of one question")
    scores = fusion.to_llm_scale(table, *scale).assign(status="ok")
    return Opinion(NAMES[judge], f"{how}, others' prompt", scores, len(scores), 0, paper=paper_name(judge))


def gpt35(domain):
    """Return the opinions in the released GPT-3.5-turbo-0613 replies: 20 samples, four criteria, three prompts.

    A pair's score is the mean over samples of each criterion, brought to 0-1, then the mean over the four criteria;
    a pair that lacks one of them has no score.
    """
    from dre.judges import gpt35 as replies
    from dre.judges import prompts

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
        found.append(Opinion(name, how, scores, len(part), bad, published=(row,) if row else ()))
    return found


def recording_folder(name):
    """Return the folder of a recording of this project."""
    from dre.data.recorded import RECORDED

    return Path(RECORDED) / name
