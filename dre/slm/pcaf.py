"""PCAF (Wang et al., DSTC11): a metric that gives one idea one score, in whatever wording or language; its Eq. 3-10.

An idea is a context with a response, in V parallel versions (translations, paraphrases). Of B ideas, ``v, v_bar``
(B, V, d) are the representations of right and wrong responses, ``s, s_bar`` (B, V) their scores.
experiments/pcaf/train_pcaf.py has Eq. 1 and 2, trains, and records the scores that are read here.
"""

import json
from dataclasses import asdict, dataclass, replace

import pandas as pd
import torch
import torch.nn.functional as F

from dre.errors import DreError
from dre.slm.provenance import TRAINING


@dataclass(frozen=True)
class Recipe:
    """Choices of a training. In print: 10 and 10 epochs, batches of 32, Adam at 5e-6 throughout, XLM-R-Large."""

    epochs: tuple[int, int] = (2, 2)  # of alignment, of distillation
    align: bool = True  # without, the first stage has Eq. 6 alone
    temperature: float = 0.05  # tau of Eq. 3 and 4
    alpha: float = 0.2  # of Eq. 10
    batch_ideas: int = 8  # with all their versions; the sums of Eq. 3-6 run over a batch
    learning_rate: float = 1e-4
    head_learning_rate: float = 1e-3
    warmup: float = 0.1
    weight_decay: float = 0.01
    max_seq_length: int = 128


#: of the trainings of Table 7 that experiments/pcaf/train_pcaf.py records: half of the tokens, a third of the time
TABLE7 = Recipe(max_seq_length=64)
VARIANTS = {"align": TABLE7, "align-distil": TABLE7}
VARIANTS |= dict.fromkeys(("plain", "distil"), replace(TABLE7, align=False))
#: what the recorded scores of the parallel corpus are made of, ``pcaf-parallel.npz``
PARALLEL = {
    name: asdict(Recipe(align=align))
    for name, align in {"PCAF": True, "PCAF, not aligned": False}.items()
}
#: recipe ``graded``, seed 0, of profile ``public``
OF = {
    "name": "default-1",
    "fingerprint": "b2496c736b495ad3027bbe56452ec974e18fcaf2424e803c9ca3265705fbf8f1",
}
PARALLEL |= {
    "SLM graded, aligned": {"epochs": 2, "batch": 8, "rate": 5e-4},
    "training": TRAINING,
    "of": OF,
}


def recorded(folder, variant, seed):
    """Return the scores of one of `VARIANTS` that are recorded in a folder, and what made them, a dict.

    The table has a column for each language, by ``pair_id``. DreError if another recipe made them.
    """
    path = folder / f"pcaf-{variant}-seed{seed}.json"
    about = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    asked = {
        "recipe": json.loads(json.dumps(asdict(VARIANTS[variant]))),
        "seed": seed,
        "training": TRAINING,
    }
    if differ := [key for key in asked if about.get(key) != asked[key]]:
        wrong = (
            f"are of another training, with other {', '.join(differ)}" if about else "are missing"
        )
        raise DreError(
            f"recorded scores of {path.stem} {wrong}: python experiments/pcaf/train_pcaf.py records them"
        )
    return pd.read_csv(path.with_suffix(".csv.gz")).set_index("pair_id"), about


def similarity_all(v, v_bar, temperature=0.05):
    """S_all, Eq. 3: exp(cos / tau) of every version of idea i with every one of a later idea m; -> scalar.

    As printed: right with right, wrong with wrong, and wrong (of i) with right (of m), but not right with wrong.
    """
    flat = [F.normalize(each, dim=-1).flatten(0, 1) for each in (v, v_bar)]
    idea = torch.arange(len(v), device=v.device).repeat_interleave(v.shape[1])
    later = idea[:, None] < idea[None, :]
    right, wrong = flat
    return sum(
        torch.exp(a @ b.T / temperature)[later].sum()
        for a, b in ((right, right), (wrong, right), (wrong, wrong))
    )


def similarity_within(v, temperature=0.05):
    """S_P, Eq. 4: exp(cos / tau) summed over the pairs of versions of each idea; (B, V, d) -> (B,)."""
    v = F.normalize(v, dim=-1)
    j, k = torch.triu_indices(v.shape[1], v.shape[1], offset=1, device=v.device)
    return torch.exp((v[:, j] * v[:, k]).sum(dim=-1) / temperature).sum(dim=1)


def alignment(v, v_bar, temperature=0.05):
    """l_align, Eq. 5: -sum over ideas of log(S_P / S_all); needs two ideas and two versions. It can be negative."""
    return -torch.log(
        similarity_within(v, temperature) / similarity_all(v, v_bar, temperature)
    ).sum()


def right_and_wrong(s, s_bar):
    """(1 - s)^2 + s_bar^2, the term that Eq. 6 (l_mse) sums over ideas and versions, and Eq. 8; any shape, kept."""
    return (1 - s) ** 2 + s_bar**2


def distillation(s, s_bar, teacher, teacher_bar):
    """l_kd, Eq. 9: the teacher's scores, and its mean over the versions of an idea, as targets; (B, V) x 4 -> (B, V).

    The mean's sum runs over k, its term is printed s_ti: read as s_tk.
    """
    mean = teacher.mean(dim=-1, keepdim=True)
    return (teacher - s) ** 2 + (teacher_bar - s_bar) ** 2 + (mean - s) ** 2


def student(s, s_bar, teacher, teacher_bar, alpha=0.2):
    """L_GEN_KD, Eq. 10: the mean over versions of alpha Eq. 8 + (1 - alpha) Eq. 9; (B, V) x 4 -> (B,)."""
    soft = distillation(s, s_bar, teacher, teacher_bar)
    return (alpha * right_and_wrong(s, s_bar) + (1 - alpha) * soft).mean(dim=-1)
