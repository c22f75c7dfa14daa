"""Score the seven replies that DRE (Table 6) and SLIDE (Tables 3 and 4) print.

Writes ``results/printed_cases.csv``, which notebook 05 shows: numbers only, because the texts are
the papers'. Type them into a JSONL file of your own (`dre.paper.printed_cases` shows its form), and
run

    python experiments/printed_cases/score.py cases.jsonl

after a change of the package's small model. It takes half a minute.
"""

import argparse
from pathlib import Path

import pandas as pd

from dre import metrics
from dre.datasets.registry import REPOSITORY
from dre.paper import printed_cases
from dre.slm import SLM
from dre.slm.encoder import load_encoder
from dre.slm.provenance import DEFAULT

RESULT = REPOSITORY / "results/printed_cases.csv"
OVERLAP = ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "BERTScore"]


def score(replies: pd.DataFrame) -> pd.DataFrame:
    """Return ``case, reply`` and the scores of each reply, without any text.

    Overlap with the reference is in [0, 1], ``untrained`` is the cosine of context and response by
    the encoder before any training, and ``score_slm`` that of the package's small model, in [0, 2].
    """
    encoder = load_encoder("minilm", 512)
    overlap = metrics.reference_based(replies, encoder, itself=True)
    scored = replies[["case", "reply"]].join(overlap[OVERLAP])
    contexts = encoder.encode([" ".join(context) for context in replies["context"]])
    responses = encoder.encode(replies["response"].tolist())
    scored["untrained"] = encoder.similarity_pairwise(contexts, responses).numpy()
    small_model = SLM.load(DEFAULT)
    table = small_model.score(replies[["pair_id", "context", "response"]])
    scored["s_d"] = table["s_d"].to_numpy()
    scored["s_p"] = table["s_p"].to_numpy()
    scored["score_slm"] = table["score_slm"].to_numpy()
    return scored


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Score the replies that the papers print.")
    parser.add_argument("cases", type=Path, help="the JSONL file with the texts")
    arguments = parser.parse_args()
    table = score(printed_cases.read(arguments.cases)).round(4)
    table.to_csv(RESULT, index=False, lineterminator="\n")
    print(table.to_string(index=False))
