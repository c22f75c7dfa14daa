"""The verdicts say what the tables say: each direction holds, and would not if its two numbers changed places."""

import re

import pytest
from test_paper import HERE

from dre.report import in_words
from dre.words import PLACE, said

PUBLIC = HERE / "results" / "public"
LINES = [line for line in (HERE / "docs" / "verdicts.md").read_text(encoding="utf-8").splitlines() if line]
ROWS = LINES[2:]
SLM, WRONG = "SLM (Prob & Dis), paper", "In-DRE less another pair's numbers"
AWAY, ALL = ("PersonaChat", "TopicalChat"), ("DailyDialog", "PersonaChat", "TopicalChat")
SAID = said(HERE)

# How the verdict's row begins, what is less, than what: a number; a name as prose shows it, and which of its numbers,
# from 0; or where a table has it.
BELOW = [
    ("The small model (SLM) tells", "03.accuracy 2", "03.deb"),
    ("The small model", "03.deb", "03.llm"),
    ("Disentangling raises trip", "02.triplet_points", "02.triplet_spread"),
    ("Disentangling raises trip", "02.triplet_higher", "02.triplet_higher 1"),
    ("It raises classification", "03.sep_points 1", 0),
    ("It raises classification", 0, "03.sep_points 2"),
    ("It raises classification", "02.class_points", "02.class_spread"),
    ("It raises classification", "02.class_higher", "02.class_higher 1"),
    ("After it", "02.near_without", "02.near_untrained"),
    ("After it", "02.near_without", "02.near_with"),
    ("0.5 is", "03.at_printed", "03.at_half"),
    ("LLMs fail", "03.only_slm_whole", "03.only_llm_whole"),
    *[("The SLM alone", ("table4", SLM, f"{s}_high"), ("table4", SLM, f"{s}_published")) for s in AWAY],
    *[("The SLM alone", f"04.slm {i}", f"04.slm_printed {i}") for i in range(3)],
    ("The SLM alone", "04.slm 1", "04.length_persona"),
    ("The SLM alone", "04.slm 2", "04.length_topical"),
    ("SLIDE, Ex-DRE", "04.better", "04.worse"),
    ("SLIDE, Ex-DRE", "04.worse", "04.worse 1"),
    ("SLIDE, Ex-DRE", "04.graded_better", "04.graded_worse"),
    ("SLIDE, Ex-DRE", ("table4_claim", "DRE", "better"), "04.dre_worse"),
    *[("Showing", f"04.llm_printed {i}", f"04.shown_printed {i}") for i in range(3)],
    *[("Showing", ("table4_interior", s, WRONG, "difference_low"), each) for i, s in enumerate(ALL) for each in (0, f"04.over_wrong {i}")],
    *[("Showing", each, ("table4_interior", s, WRONG, "difference_high")) for i, s in enumerate(ALL) for each in (0, f"04.over_wrong {i}")],
    ("It transfers", "05.unseen_persona_plain", "05.seen_persona_plain"),
    ("It transfers", "05.unseen_topical", "05.seen_topical"),
    ("It transfers", "05.seen_persona", "05.length_persona"),
    ("It transfers", "05.seen_topical", "05.length_topical"),
    *[("Augmented sets", ("augmentation_slm", f"{s} (augmented)", "paper", "overall_high"), ("augmentation_slm", f"{s} (augmented)", "paper", "printed")) for s in AWAY],
    ("Augmented sets", "03.check_persona_whole", 83),
    ("Augmented sets", "03.check_topical_whole", 85),
    ("Creative", "06.slm_fitting", "06.slm_contradiction"),
    ("Creative", "06.llm_contradiction", "06.llm_creative"),
    ("Creative", "06.dre_creative", "06.llm_creative"),
    ("Creative", "06.dre_contradiction", "06.dre_creative"),
    ("Huynh", 0, "09.by_hand_signed"),
    ("Huynh", "09.choice_turns_signed 1", 0),
    ("Huynh", 0, "09.choice_turns_signed 2"),
    ("PCAF", "10.distilled 2", ("pcaf_table7", "cosine, untrained", "here", "mean_low")),
    ("PCAF", "10.distilled 2", "10.cosine"),
    ("PCAF", "10.plain_printed", "10.aligned_printed"),
    ("PCAF", "10.aligned_printed", "10.distilled_printed"),
    *[("PCAF", f"10.{name} 1", each) for name in ("plain", "aligned", "distilled") for each in (0, f"10.{name}_point")],
    *[("PCAF", each, f"10.{name} 2") for name in ("plain", "aligned", "distilled") for each in (0, f"10.{name}_point")],
    ("PCAF", "10.near_plain_whole", "10.near_aligned_whole"),
]  # fmt: skip


def value(what):
    if isinstance(what, tuple):
        table, *row, column = what
        return float(in_words(PUBLIC / f"{table}.csv", row, f"{{{column}}}"))
    if not isinstance(what, str):
        return what
    name, _, which = what.partition(" ")
    return float(re.findall(r"[−\d.]+", SAID[name])[int(which or 0)].replace("−", "-"))


@pytest.mark.parametrize(("begins", "less", "more"), BELOW)
def test_a_verdict_has_the_direction_of_its_numbers(begins, less, more):
    assert len([row for row in ROWS if row.startswith(f"| {begins}")]) == 1
    assert value(less) < value(more)


def test_every_verdict_and_every_number_it_shows_is_held_and_rows_have_the_cells_of_their_table():
    assert 0 < len(ROWS) <= 14 and {line.count("|") for line in LINES} == {6}
    for row in ROWS:
        held = [str(each) for begins, *both in BELOW if row.startswith(f"| {begins}") for each in both]
        shown = {place[1] for place in PLACE.finditer(row)}
        assert held and shown <= {what.partition(" ")[0] for what in held}, row
