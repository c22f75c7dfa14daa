"""What does a weak judge do with a small model's numbers, and what a strong one? Three tables.

The weak judge was recorded by weak_judge.py. Run ``python
experiments/recordings/weak_judge_table.py`` with the public data: two minutes. For both judges, on
the pairs that the weak one was asked with all prompts, it makes

``results/weak_judge_effects.csv``
    differences in agreement with people, over all pairs and within contexts
``results/weak_judge.csv``
    agreement with people alone and by what was shown
``results/weak_judge_reactions.csv``
    how far the judge follows the numbers, and what its influence says

The columns are those of `dre.paper.interior.effects`, ``agreements`` and ``reactions``.
"""

from dre.datasets.registry import PROJECT
from dre.files import replace
from dre.paper import interior

NAMES = {
    "effects": "weak_judge_effects",
    "agreements": "weak_judge",
    "reactions": "weak_judge_reactions",
}


def main() -> None:
    """Write the tables."""
    items = interior.asked_of_all()
    n_pairs = {name: len(table) for name, table in items.items()}
    print(f"pairs that all prompts have: {n_pairs}")
    for what, table in interior.both().items():
        text = table.to_csv(index=False, float_format="%.4f", lineterminator="\n")
        replace(PROJECT / "results" / f"{NAMES[what]}.csv", text)
        print(table.round(3).to_string())


if __name__ == "__main__":
    main()
