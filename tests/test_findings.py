"""What README, the summary and notebooks 06 and 07 say in words holds of the tables.

A case is the beginning of a sentence, a place of a table as `dre.paper.words.cell` takes it, and
what must hold of the number there: that its 95 % interval, or the number itself where it has none,
lies above or below a number or the number of another place (``> 0``), or holds it (``~ 0``).
"""

import re
import shutil

import pytest

from dre.datasets.registry import PROJECT
from dre.paper import words

RESULTS = PROJECT / "results/public"
READ_ALONE = [
    ("audit: paper: response", "> 90"),
    ("audit: paper: interaction", "< 5"),
    ("audit: paper: elsewhere", "> 80"),
]
NOT_IMPROVED = [("table4_effects: SLM less untrained, paper: value", "~ 0")]
BY_JUDGE = [
    ("printed_gains: DRE; SLM: closed", "> 0"),
    ("printed_gains: DRE; SLM: open", "< 0"),
]
WEAK = "weak_judge_effects: weak; {}; {} less the {}; overall: pooled"
STRONG = "weak_judge_effects: strong; {}; In-DRE less {}; overall: pooled"
ASKED = [
    (WEAK.format("ours", "In-DRE", "judge").replace("pooled", "pairs"), "> 600"),
    (WEAK.format("ours", "In-DRE", "judge").replace("pooled", "contexts"), ""),
]
LIFTED = [
    (WEAK.format("as printed", "In-DRE", "judge"), "> 0"),
    (STRONG.format("as printed", "broken ties"), "~ 0"),
]
HARMED = [
    (WEAK.format("another pair's", "In-DRE", "judge"), "< 0"),
    (STRONG.format("another pair's", "the judge"), "~ 0"),
]
FOLLOWS = [
    ("weak_judge_reactions: weak; as printed: copies", "> 0"),
    ("weak_judge_reactions: weak; another pair's: copies", "> 0"),
    ("weak_judge_reactions: weak; another pair's: follows", "> 0.5"),
]
STRONG_LOSES = ("table4_pooled: Ex-DRE; ours: strong", "< 0")
JUDGE_ALONE = "judge alone (claude-2026-11)"
BEST = [
    (f"table4_main: {JUDGE_ALONE}: mean", f"> table4_main: {fusion}: mean")
    for fusion in ("SLIDE", "In-DRE", "Ex-DRE", "DRE")
]
NO_FUSION_ABOVE = [
    (f"table4: {fusion}: {name}", f"< table4: LLM-only (claude-2026-11), either asking: {name}")
    for fusion in (
        "SLIDE (claude-2026-11), paper",
        "SLIDE (claude-2026-11), ours",
        "Ex-DRE (claude-2026-11), paper",
        "Ex-DRE (claude-2026-11), ours",
        "DRE (claude-2026-11), as shown",
    )
    for name in ("DailyDialog", "PersonaChat", "TopicalChat")
]
README = {
    "The papers' small model accepts good replies wherever they stand.": [
        ("audit: paper: other", "> 50"),
    ],
    "The small model hardly reads the conversation.": READ_ALONE,
    "It is right about 8": [
        ("table3: SLM (Prob & Dis), paper: overall", "> 50"),
        ("table3: SLM (Prob & Dis), paper: printed", "> 50"),
    ],
    "On a sample it is right": [
        ("audit: paper: overall", "> 50"),
        ("audit: paper: elsewhere", "> 50"),
    ],
    "Training by the papers' recipe did not improve its encoder.": NOT_IMPROVED,
    "In the papers' own table it depends on the judge.": BY_JUDGE,
    "DRE differs from the small model by": BY_JUDGE,
    # the share is that of the difference of both: see the test below
    "And 33 % of DRE's gain": [("printed_gains: DRE; LLMs-only: closed", "> 0")],
    "Multiplying helps the judges below the strong one, mostly over all pairs.": [
        ("table4_pooled: Ex-DRE; ours: all but strong", "> 0"),
        ("table4_by_way: all but strong; judge: within_contexts", "~ 0"),
    ],
    "With our small model, judges below the strong one gain": [
        ("table4_pooled: Ex-DRE; ours: all but strong", "> 0"),
        ("table4_ties: all but the strong one: breaks ties", "> 0"),
    ],
    "For small open judges it is not clear": [
        ("table4_by_way: open; judge: within_contexts", "~ 0"),
    ],
    "A weak judge followed numbers as good as printed, and another": FOLLOWS,
    "The weak judge was asked with every prompt": ASKED,
    "It has 1.5 billion parameters": [],  # as the name of its file says
    "Numbers as good as printed lift": LIFTED,
    "Another pair's numbers lower": HARMED,
    "The weak judge that saw numbers": [
        (WEAK.format("as printed", "In-DRE", "small model"), "< 0"),
        (WEAK.format("as printed", "DRE", "small model"), "< 0"),
    ],
    "With our small model's numbers, DRE is not clearly apart": [
        (WEAK.format("ours", "DRE", "small model"), "~ 0"),
    ],
    "A strong judge alone was best.": BEST,
    "Multiplying with our small model changes its agreement by": [STRONG_LOSES],
}
SUMMARY = {
    "The small model classifies well and hardly reads": READ_ALONE
    + [("table3: SLM (Prob & Dis), paper: overall", "> 80")],
    "Training by the papers' recipe did not improve this encoder.": NOT_IMPROVED,
    "In the papers' own tables it depends on the judge.": BY_JUDGE,
    "Multiplying helps weak judges and harms the strong one.": [
        ("table4_pooled: Ex-DRE; ours: all but strong", "> 0"),
        STRONG_LOSES,
    ],
    "Numbers as good as printed lift a weak judge, and another reply's numbers harm it.": [
        LIFTED[0],
        HARMED[0],
    ],
    "The strong judge alone was best on the mean of three sets.": BEST,
    "Neither multiplying nor SLIDE was above it on any of them.": NO_FUSION_ABOVE,
}
NOTEBOOKS = {
    "06: the papers' small model notices a wrong conversation less than its encoder does": [
        ("audit: paper: falls", "> 50"),
        ("audit: paper: falls", "< audit: encoder before our training: falls"),
    ],
    "06: our small model notices it": [
        ("audit: ours: elsewhere", "< 60"),
        ("audit: ours: interaction", "> 20"),
        ("audit: ours: other", "< 25"),
    ],
    "06: training as in the paper lowers agreement with people": [
        ("audit_ratings: mean of the sets; paper: difference", "< 0"),
        ("audit_ratings: mean of the sets; ours: difference", "> 0"),
    ],
    "06: our small model still falls for contradictions but not for an echo": [
        ("audit_kinds: contradicts: slm", "< 60"),
        ("audit_kinds: echo_last: slm", "> 50"),
    ],
    "07: the weaker the judge the more the product helps": [
        ("fusion_harm: Ex-DRE; judge alone: middle", "> 0"),
        ("fusion_harm: Ex-DRE; judge alone: strong", "< 0"),
        ("fusion_harm: Ex-DRE; better part: open", "> 0"),
    ],
    "07: SLIDE helps no class of judges": [
        ("fusion_harm: SLIDE; judge alone: open", "< 0"),
        ("fusion_harm: SLIDE; judge alone: middle", "< 0"),
        ("fusion_harm: SLIDE; judge alone: strong", "< 0"),
    ],
    "07: the learned weight gains with open judges and leaves the strong one alone": [
        ("fusion_harm: learned weight; judge alone: open", "> 0"),
        ("fusion_harm: learned weight; judge alone: strong", "~ 0"),
    ],
}
CASES = [
    (text, *case)
    for sentences in (README, SUMMARY, NOTEBOOKS)
    for text, cases in sentences.items()
    for case in cases
    if case[1]
]


def number(place, ending=""):
    """Return the number of a place, or the end of its interval if there is one."""
    row, column = words.cell(RESULTS, place)
    return float(row.get(f"{column}{ending}") or row[column])


@pytest.mark.parametrize(("text", "place", "holds"), CASES)
def test_what_a_sentence_says_holds_of_its_number(text, place, holds):
    sign, than = holds.split(" ", 1)
    if ": " in than:
        low = high = number(place)
        than = number(than)
    else:
        low, high = number(place, "_low"), number(place, "_high")
        than = float(than)
    assert {">": low > than, "<": high < than, "~": low <= than <= high}[sign]


def found(file):
    """Return the Markdown of the part with the findings of a page."""
    text = (PROJECT / file).read_text(encoding="utf-8")
    return text.partition("## What we found\n")[2].partition("\n## ")[0]


def sentences_of(markdown):
    """Return the sentences of Markdown outside of tables."""
    lines = [line for line in markdown.splitlines() if not line.startswith("|")]
    return re.split(r"(?<=[.?!])(?:\*\*|<!--/-->)? (?!and|or)|\n", "\n".join(lines))


def plain(markdown):
    """Return what a reader sees of a sentence."""
    return re.sub(r"<!--.*?-->|\*\*|^- ", "", markdown).strip()


def cases_of(sentence, by_text):
    """Return the cases of a sentence; fails if there are none."""
    matches = [text for text in by_text if plain(sentence).startswith(text)]
    assert matches, f"no case for {plain(sentence)!r}"
    return by_text[matches[0]]


def test_each_sentence_of_readme_with_a_number_has_a_case_for_each_of_its_numbers():
    numbered = [one for one in sentences_of(found("README.md")) if re.search(r"\d", plain(one))]
    assert len(numbered) > 8
    for sentence in numbered:
        held = [place for place, _ in cases_of(sentence, README)]
        for place in re.findall(r"<!--([^/].*?)(?: [+,]*\.\df(?:\[\])?)?-->", sentence):
            assert place in held, f"{plain(sentence)!r} has a number of {place}, and no case"


@pytest.mark.parametrize(("file", "by_text"), [("README.md", README), ("docs/summary.md", SUMMARY)])
def test_each_bold_sentence_has_a_case(file, by_text):
    bold = re.findall(r"\*\*(.+?)\*\*", found(file))
    assert len(bold) > 4
    for sentence in bold:
        assert cases_of(sentence, by_text), sentence


@pytest.mark.parametrize(("file", "by_text"), [("README.md", README), ("docs/summary.md", SUMMARY)])
def test_each_case_has_its_sentence(file, by_text):
    text = plain((PROJECT / file).read_text(encoding="utf-8"))
    assert [start for start in by_text if start not in text] == []


def test_a_third_of_the_gain_of_dre_over_closed_judges_in_print_is_their_own_baseline():
    over_own = number("printed_gains: DRE; Non-DRE: closed")
    over_slides = number("printed_gains: DRE; LLMs-only: closed")
    share = 100 * (1 - over_slides / over_own)
    for file in ("README.md", "docs/summary.md"):
        assert f"{share:.0f} % of" in found(file)


def test_readme_and_docs_show_the_numbers_of_the_tables(tmp_path):
    for name in ("docs", "results"):
        shutil.copytree(PROJECT / name, tmp_path / name)
    shutil.copy(PROJECT / "README.md", tmp_path)
    assert words.fill(tmp_path) == []
