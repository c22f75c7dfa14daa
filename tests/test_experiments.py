"""Scripts that run for hours find what they import, and choose on conversations that nothing was trained on."""

import ast
from pathlib import Path

import pytest
from conftest import experiment, needs_data

from dre.slm import contexts, extra

ROOT, choose = Path(__file__).parents[1], experiment("choose_slm")


@pytest.mark.parametrize("path", [*ROOT.glob("experiments/*.py"), *ROOT.glob("benchmarks/*.py")], ids=lambda p: p.name)
def test_what_a_script_imports_of_the_package_is_there(path):
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    for node in nodes:
        if node.module.split(".")[0] == "dre":
            exec(ast.unparse(node), {})


@needs_data
def test_no_held_out_conversation_is_trained_on():
    given = choose.data()
    held_out, conversations = given["for_choice"], set(given["graded"]["conversation"].dropna())
    assert len(given["graded"]) > 5000 and len(held_out) > 800 and len(conversations) > 400
    assert not conversations & set(held_out["conversation"])

    def long(turns):
        return {"".join(filter(str.isalnum, turn.lower())) for turn in turns if len(turn.split()) > 4}

    said = set().union(*map(long, held_out["context"]))
    public = choose.profile("public")
    labelled, dev, _ = contexts(public.sets[0], public.rated, version=public.models["graded"].data)
    learned = extra(public, dev)
    others = [turns for _, turns, _, _ in learned.graded] + [one.turns for one in (*learned.dialogues, *labelled)]
    assert len(learned.dialogues) > 20_000 and len(labelled) > 700 and len(learned.graded) > 5000
    assert not [turns for turns in others if said & long(turns)]
