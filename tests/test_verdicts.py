"""The verdicts say what the tables say: each direction holds, and would not if its two numbers changed places."""

import csv

import pytest
from test_paper import HERE

ROWS = [line for line in (HERE / "docs" / "verdicts.md").read_text(encoding="utf-8").splitlines()[2:] if line]
PAPER, SUM = "SLM (Prob & Dis), paper", "score=SLM (Prob & Dis)"
CONTROL = "comparison=In-DRE less another pair's numbers"
CHOICE = "level=turn; comparison=BM25 less random"
SETS = ("PersonaChat", "TopicalChat")

BELOW = [  # (how the verdict's row begins, what is less, than what): a number, or table, row, column
    ("The small model (SLM) tells", f"table3 | model={PAPER} | overall_high", "table3 | model=DEB | overall_low"),
    ("The small model", "table3 | model=DEB | overall", "table3 | model=LLM labels (claude-2026-11) | overall"),
    ("Disentangling raises trip", "training_gains | set=all sets; measure=triplet accuracy | difference", "training_gains | set=all sets; measure=triplet accuracy | difference_sd"),
    ("It raises classification", f"disentangling | {SUM} | overall_low", 0),
    ("It raises classification", 0, f"disentangling | {SUM} | overall_high"),
    ("It raises classification", "training_gains | set=all sets; measure=classification accuracy | difference", "training_gains | set=all sets; measure=classification accuracy | difference_sd"),
    ("After it", "figure5 | space=trained without sep | positive", "figure5 | space=encoder before training | positive"),
    ("After it", "figure5 | space=trained without sep | positive", "figure5 | space=trained with sep: robust parts | positive"),
    ("0.5 is", "threshold_readings | reading=0.5 as printed | overall", "threshold_readings | reading=1, half of the range | overall"),
    ("LLMs fail", "errors | kind=positives | only the SLM right", "errors | kind=positives | only the LLM right"),
    *[("The SLM alone", f"table4 | method={PAPER} | {s}_high", f"table4 | method={PAPER} | {s}_published") for s in SETS],
    *[("The SLM alone", f"table4 | method={PAPER} | {s}", f"table4 | method=Response length | {s}") for s in SETS],
    *[("SLIDE, Ex-DRE", f"table4_claim | fusion=SLIDE or Ex-DRE; slm={r} | better", f"table4_claim | fusion=SLIDE or Ex-DRE; slm={r} | worse") for r in ("paper", "graded")],
    ("SLIDE, Ex-DRE", "table4_claim | fusion=DRE | better", "table4_claim | fusion=DRE | worse"),
    *[("Showing", f"table4_interior | set={s}; {CONTROL} | difference_low", 0) for s in ("DailyDialog", *SETS)],
    *[("Showing", 0, f"table4_interior | set={s}; {CONTROL} | difference_high") for s in ("DailyDialog", *SETS)],
    *[("It transfers", f"table5 | set={s}; method=SLM (Prob & Dis) | seen", f"table5 | set={s}; method=Response length | seen") for s in SETS],
    *[("Augmented sets", f"augmentation_slm | set={s} (augmented); recipe=paper | overall_high", f"augmentation_slm | set={s} (augmented); recipe=paper | printed") for s in SETS],
    ("Creative", f"table6 | metric={PAPER}; source=ours | contradiction_1", f"table6 | metric={PAPER}; source=ours | contradiction_2"),
    ("Creative", "table6 | metric=Non-DRE; source=ours | contradiction_2", "table6 | metric=Non-DRE; source=ours | creative_2"),
    ("Creative", "table6 | metric=DRE; source=ours | creative_2", "table6 | metric=Non-DRE; source=ours | creative_2"),
    ("Huynh", f"huynh_choice | {CHOICE} | difference_low", 0),
    ("Huynh", 0, f"huynh_choice | {CHOICE} | difference_high"),
    ("PCAF", "pcaf_table7 | variant=PCAF; source=here | mean_high", "pcaf_table7 | variant=cosine, untrained; source=here | mean_low"),
    *[("PCAF", f"pcaf_table7 | variant={a}; source=in print | mean", f"pcaf_table7 | variant={b}; source=in print | mean") for a, b in (("w/o kd & align", "w/o kd"), ("w/o kd", "PCAF"))],
    *[("PCAF", f"pcaf_table7 | variant={v}; source=here | mean_low", 0) for v in ("PCAF", "w/o kd", "w/o kd & align")],
    *[("PCAF", 0, f"pcaf_table7 | variant={v}; source=here | mean_high") for v in ("PCAF", "w/o kd", "w/o kd & align")],
    ("PCAF", "pcaf_neighbours | variant=w/o kd & align | nearest_is_same_idea", "pcaf_neighbours | variant=w/o kd | nearest_is_same_idea"),
]  # fmt: skip


def value(what):
    if not isinstance(what, str):
        return what
    table, where, column = what.split(" | ")
    with open(HERE / "results" / "public" / f"{table}.csv", encoding="utf-8", newline="") as file:
        wanted = [part.split("=", 1) for part in where.split("; ")]
        (row,) = [row for row in csv.DictReader(file) if all(row[key] == text for key, text in wanted)]
    return float(row[column])


@pytest.mark.parametrize(("begins", "less", "more"), BELOW)
def test_a_verdict_has_the_direction_of_its_numbers(begins, less, more):
    assert len([row for row in ROWS if row.startswith(f"| {begins}")]) == 1
    assert value(less) < value(more)


def test_every_verdict_is_held():
    assert len(ROWS) <= 14 and all(any(row.startswith(f"| {begins}") for begins, *_ in BELOW) for row in ROWS)
