"""PCAF (Wang et al., DSTC11), Eq. 3-10: a metric that scores an idea, however it is worded.

An idea is a context with a response, in V parallel versions (translations or paraphrases). Of B
ideas, ``v, v_bar`` (B, V, d) are the representations of right and wrong responses, and ``s, s_bar``
(B, V) are their scores. experiments/pcaf/train_pcaf.py has Eq. 1 and 2, trains the metric, and
records the scores that are read here.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pandas as pd
import torch
import torch.nn.functional as F

from dre.datasets import ratings
from dre.errors import DreError
from dre.paper.profile import COMMITTED, Profile
from dre.slm.provenance import TRAINING
from dre.slm.remembered import Remembered

_COMMAND = "python experiments/pcaf/train_pcaf.py"  # records the scores of Table 7


@dataclass(frozen=True)
class PcafRecipe:
    """The choices of a training.

    The paper trains XLM-R-Large for 10 and 10 epochs, in batches of 32, by Adam with a constant
    learning rate of 5e-6.
    """

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


#: The recipe of Table 7, which experiments/pcaf/train_pcaf.py records. It reads half of the tokens
#: and so takes a third of the time.
TABLE7 = PcafRecipe(max_seq_length=64)
#: The same for XLM-RoBERTa, with the paper's epochs, batches and learning rate. The MLP keeps ours,
#: because it starts from random weights. This recipe has never been trained.
TABLE7_OF_XLM_R = PcafRecipe(epochs=(10, 10), batch_ideas=32, learning_rate=5e-6)
#: By variant, whether its first stage aligns the versions of an idea.
VARIANTS = {"align": True, "align-distil": True, "plain": False, "distil": False}
#: The small model of recipe ``graded``, seed 0, profile ``public``, that alignment starts from.
GRADED_SLM = {
    "name": "default-1",
    "fingerprint": "b2496c736b495ad3027bbe56452ec974e18fcaf2424e803c9ca3265705fbf8f1",
}
#: What the recorded scores of the parallel corpus, ``pcaf-parallel.npz``, are made of.
PARALLEL = {
    "PCAF": asdict(PcafRecipe(align=True)),
    "PCAF, not aligned": asdict(PcafRecipe(align=False)),
    "SLM graded, aligned": {"epochs": 2, "batch": 8, "rate": 5e-4},
    "training": TRAINING,
    "of": GRADED_SLM,
}


def table7_recipe(variant: str, encoder: str) -> PcafRecipe:
    """Return the recipe of Table 7 for one of `VARIANTS` and an encoder."""
    recipe = TABLE7_OF_XLM_R if encoder.startswith("xlm-roberta") else TABLE7
    return replace(recipe, align=VARIANTS[variant])


def in_all_languages(names: Sequence[str]) -> pd.DataFrame:
    """Return the pairs of rated sets, each with its texts in all languages: so are scores recorded.

    ``context`` has the turns of every language, one after another, and ``response`` the replies, a
    line for each. A recorded row has the scores of all these texts.
    """
    tables = []
    for name in names:
        by_language = list(ratings.translated(name).values())
        contexts = zip(*(table["context"] for table in by_language))
        responses = zip(*(table["response"] for table in by_language))
        # A context begins with the pair's id: equal texts were scored in batches of their own.
        ids = by_language[0]["pair_id"]
        pairs = by_language[0].assign(
            context=[(id, *sum(versions, ())) for id, versions in zip(ids, contexts)],
            response=["\n".join(versions) for versions in responses],
        )
        tables.append(pairs)
    return pd.concat(tables, ignore_index=True)


def folder(profile: Profile) -> Path:
    """Return where a profile's scores are recorded."""
    if profile.name == COMMITTED:
        return profile.root / "data" / "recorded" / "pcaf"
    return profile.results / "pcaf"


def recorded(folder: Path, variant: str, seed: int) -> Remembered:
    """Return the recorded scores of one of `VARIANTS`, with the provenance of what made them.

    Parameters
    ----------
    folder : the recording, `dre.slm.remembered.Recording`.
    variant : one of `VARIANTS`.
    seed : that of the training.

    Returns
    -------
    Its ``score`` takes pairs of `in_all_languages`, and has a column for each language.

    Raises
    ------
    DreError
        If the scores are missing, or another recipe, seed or version of the training made them.
    """
    scores = Remembered.recorded(f"{variant}-seed{seed}", folder, _COMMAND)

    # Are the scores of the training that is expected?
    recipe = table7_recipe(variant, scores.provenance.get("encoder", ""))
    expected = {
        "recipe": json.loads(json.dumps(asdict(recipe))),
        "seed": seed,
        "training": TRAINING,
    }
    different = [key for key, value in expected.items() if scores.provenance.get(key) != value]
    if different:
        problem = "are missing"
        if scores.provenance:
            problem = f"are of another training, with other {', '.join(different)}"
        raise DreError(f"recorded scores of {scores.name} {problem}: {_COMMAND} records them")
    return scores


def recorded_cosines(folder: Path) -> Remembered:
    """Return the recorded cosines of the encoder before any training, as `recorded` has scores."""
    return Remembered.recorded("cosine", folder, _COMMAND)


def similarity_all(v: torch.Tensor, v_bar: torch.Tensor, temperature: float = 0.05) -> torch.Tensor:
    """S_all, Eq. 3: exp(cos / tau), summed over versions of two ideas; (B, V, d) x 2 -> scalar.

    Every version of idea i is compared with every version of each later idea m. As printed these
    are right with right, wrong with wrong, and wrong (of i) with right (of m), but not right with
    wrong.
    """
    right = F.normalize(v, dim=-1).flatten(0, 1)
    wrong = F.normalize(v_bar, dim=-1).flatten(0, 1)
    idea = torch.arange(len(v), device=v.device).repeat_interleave(v.shape[1])
    is_later = idea[:, None] < idea[None, :]
    total = torch.zeros((), device=v.device)
    for x, y in ((right, right), (wrong, right), (wrong, wrong)):
        total = total + torch.exp(x @ y.T / temperature)[is_later].sum()
    return total


def similarity_within(v: torch.Tensor, temperature: float = 0.05) -> torch.Tensor:
    """S_P, Eq. 4: exp(cos / tau), summed over pairs of versions of an idea; (B, V, d) -> (B,)."""
    v = F.normalize(v, dim=-1)
    n_versions = v.shape[1]
    j, k = torch.triu_indices(n_versions, n_versions, offset=1, device=v.device)
    cosines = (v[:, j] * v[:, k]).sum(dim=-1)
    return torch.exp(cosines / temperature).sum(dim=1)


def alignment(v: torch.Tensor, v_bar: torch.Tensor, temperature: float = 0.05) -> torch.Tensor:
    """l_align, Eq. 5: minus the sum over ideas of log(S_P / S_all); (B, V, d) x 2 -> scalar.

    It needs at least two ideas and two versions. It can be negative.
    """
    within = similarity_within(v, temperature)
    ratios = within / similarity_all(v, v_bar, temperature)
    return -torch.log(ratios).sum()


def right_and_wrong(s: torch.Tensor, s_bar: torch.Tensor) -> torch.Tensor:
    """(1 - s)^2 + s_bar^2, which is Eq. 8, and what Eq. 6 (l_mse) sums; the shape is kept."""
    return (1 - s) ** 2 + s_bar**2


def distillation(
    s: torch.Tensor, s_bar: torch.Tensor, teacher: torch.Tensor, teacher_bar: torch.Tensor
) -> torch.Tensor:
    """l_kd, Eq. 9: the squared distance from the teacher's scores; (B, V) x 4 -> (B, V).

    The teacher's mean over the versions of an idea is a target, too. The sum of this mean runs over
    k, while its term is printed as s_ti: we read it as s_tk.
    """
    mean = teacher.mean(dim=-1, keepdim=True)
    return (teacher - s) ** 2 + (teacher_bar - s_bar) ** 2 + (mean - s) ** 2


def student(
    s: torch.Tensor,
    s_bar: torch.Tensor,
    teacher: torch.Tensor,
    teacher_bar: torch.Tensor,
    alpha: float = 0.2,
) -> torch.Tensor:
    """L_GEN_KD, Eq. 10: alpha Eq. 8 + (1 - alpha) Eq. 9, mean over versions; (B, V) x 4 -> (B,)."""
    hard = right_and_wrong(s, s_bar)
    soft = distillation(s, s_bar, teacher, teacher_bar)
    return (alpha * hard + (1 - alpha) * soft).mean(dim=-1)
