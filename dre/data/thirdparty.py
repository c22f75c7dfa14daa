"""Scores and replies that others recorded: judges on the rated sets, classifiers on DailyDialog++.

Every table is joined to this project's pair ids, and the join is checked against what the files repeat of
their items (dialogue index, human mean, system and text), so a row cannot slip.
"""

import math
import re

import pandas as pd

from dre.data import human, parse, sets
from dre.data.fetch import local
from dre.data.registry import find, group
from dre.errors import DreError

HAIKU = "claude-3-haiku"
UNIEVAL = "unieval"
P_YES = {  # judge -> folder of its files
    "llama2-13b": "Llama2-13B",
    "qwen-14b": "Qwen14B",
    "vicuna-13b": "Vicuna13B",
    "baichuan2-13b": "Baichuan2-13B",
    "chatglm3-6b": "Chatglm3-6B",
}
JUDGES = (HAIKU, *P_YES, UNIEVAL)
GPT35_CRITERIA = {"coh": "coherence", "eng": "engagingness", "gro": "groundedness", "nat": "naturalness"}
GPT35_PROMPTS = ("geval", "analyze_rate", "rate_explain")
CLASSIFIERS = {  # name -> end of the file name
    "DEB": "DEB (random + adversarial negatives) (IIT Madras).json",
    "DEB (random negatives)": "DEB (random negatives) (IIT Madras).json",
    "RUBER-Large": "RUBER-Large (random + adversarial negatives) (Peking University).json",
}
_HAIKU_FILES = {
    "topicalchat-usr": "TC/tc_usr_results.json",
    "personachat-usr": "PC/pc_usr_results.json",
    "fed-turn": "FED/turn_results.json",
}
_P_YES_FILES = {"topicalchat-usr": "tc_usr_data", "personachat-usr": "pc_usr_data", "fed-turn": "fed_data"}


def judge_scores(judge):
    """Return the recorded scores of a judge.

    Parameters
    ----------
    judge : str
        ``claude-3-haiku``: overall, 1-5; ``llama2-13b``, ``qwen-14b``, ``vicuna-13b``, ``baichuan2-13b``,
        ``chatglm3-6b``: P(yes), 0-1; all of them on TopicalChat-USR, PersonaChat-USR and FED-turn.
        ``unieval``: its overall prediction on TopicalChat-USR, with one column a criterion more.

    Returns
    -------
    pandas.DataFrame
        Columns ``pair_id, judge, score``.
    """
    if judge == HAIKU:
        rows = [row for name in _HAIKU_FILES for row in _haiku(name)]
    elif judge in P_YES:
        rows = [row for name in _P_YES_FILES for row in _p_yes(judge, name)]
    elif judge == UNIEVAL:
        rows = _unieval()
    else:
        raise DreError(f"no recorded scores of judge {judge!r}: use one of {', '.join(JUDGES)}")
    return pd.DataFrame(rows)


def classifier_scores(model):
    """Return the released scores (0-1, positive from 0.5) of a classifier on DailyDialog++ test.

    Parameters
    ----------
    model : {"DEB", "DEB (random negatives)", "RUBER-Large"}
        DEB and RUBER-Large were trained with random and adversarial negatives, the other DEB with random ones
        only.

    Returns
    -------
    pandas.DataFrame
        Columns ``pair_id, model, score``: 17,130 rows, 1,142 contexts by 15 responses.
    """
    if model not in CLASSIFIERS:
        raise DreError(f"no released scores of model {model!r}: use one of {', '.join(CLASSIFIERS)}")
    path = local(find("dailydialog++-models", CLASSIFIERS[model]))
    rows = []
    for key, score in parse.read_json_object(path).items():
        if not re.fullmatch(r"\d+[par]\d+", key):
            raise DreError(f"{path}: key {key!r}, expected <id><p|a|r><index>: get the file again")
        score = parse.number(score, f"the score of {key}", path)
        rows.append({"pair_id": f"dailydialog++-test/{key}", "model": model, "score": score})
    return pd.DataFrame(rows)


def gpt35_replies():
    """Return the raw replies of GPT-3.5-turbo-0613 on TopicalChat-USR, unparsed.

    Four criteria, three prompts, 20 samples an item; some items are missing (356 to 360 of 360 a file), some
    replies hold no rating or one off the scale.

    Returns
    -------
    pandas.DataFrame
        Columns ``pair_id, criterion, prompt, repeat`` (from 0), ``reply``.
    """
    ids = _ids_by_text()
    rows = []
    for short, criterion in GPT35_CRITERIA.items():
        for prompt in GPT35_PROMPTS:
            path = local(find("judge-gpt-3.5", f"gpt3.5_{short}_{prompt}.json"))
            for where, record in parse.read_json_array(path):
                pair_id = _id_by_text(record, ids, where)
                replies = parse.texts(record, "all_responses", where)
                rows += [(pair_id, criterion, prompt, repeat, reply) for repeat, reply in enumerate(replies)]
    return pd.DataFrame(rows, columns=["pair_id", "criterion", "prompt", "repeat", "reply"])


def _haiku(name):
    path = local(find("judge-claude-3-haiku", _HAIKU_FILES[name]))
    for rated, (where, record) in _aligned(path, name, parse.read_json_array(path), "dialog_id"):
        theirs = parse.number(record.get("human_score"), "human_score", where)
        if not math.isclose(theirs, rated.mean("overall"), abs_tol=1e-6):
            raise DreError(f"{where}: human_score {theirs}, but {rated.pair_id} has {rated.mean('overall')}")
        score = parse.number(record.get("predicted_score"), "predicted_score", where)
        yield {"pair_id": rated.pair_id, "judge": HAIKU, "score": score}


def _p_yes(judge, name):
    folder = f"{P_YES[judge]}/{_P_YES_FILES[name]}/turn_level"
    path = local(next(s for s in group("judge-open-llms") if s.path.startswith(folder)))
    records = parse.field(parse.read_json_object(path), "dialogues", list, path)
    located = ((f"{path}: dialogue {i}", parse.check(r, dict, "it", path)) for i, r in enumerate(records))
    for rated, (where, record) in _aligned(path, name, located, "id_dialogue"):
        yield {
            "pair_id": rated.pair_id,
            "judge": judge,
            "score": parse.number(record.get("yes"), "yes", where),
        }


def _unieval():
    ids = _ids_by_text()
    path = local(find("unieval", "topical_chat_result.json"))
    rows = []
    for where, record in parse.read_json_array(path):
        predicted = parse.field(record, "predict_scores", dict, where)
        scores = {criterion: parse.number(value, criterion, where) for criterion, value in predicted.items()}
        score = scores.pop("overall", None)
        if score is None:
            raise DreError(f"{where}: predict_scores has no overall")
        rows.append({"pair_id": _id_by_text(record, ids, where), "judge": UNIEVAL, "score": score} | scores)
    return rows


def _aligned(path, name, located, key):
    """Pair the rows of a file with the rated responses of a set, whose order and dialogue index they keep."""
    rated, located = sets.rated(name), list(located)
    if len(rated) != len(located):
        raise DreError(f"{path} has {len(located)} items, {name} has {len(rated)}: get the file again")
    for response, (where, record) in zip(rated, located):
        index = int(response.pair_id.split("/")[1])
        if record.get(key) != index:
            raise DreError(f"{where}: {key} is {record.get(key)!r}, expected {index}: the order is not that of {name}")
        yield response, (where, record)


def _ids_by_text():
    """Pair id of every TopicalChat-USR response by context, system and text (systems may agree in text)."""
    return {(r.turns, r.system, r.response): r.pair_id for r in sets.rated("topicalchat-usr")}


def _id_by_text(record, ids, where):
    source, system, output = (parse.field(record, n, str, where) for n in ("source", "system_id", "system_output"))
    key = (human.context_turns(source, where), system, output.strip())
    if key not in ids:
        raise DreError(f"{where}: no TopicalChat-USR response has this source, system and output")
    return ids[key]
