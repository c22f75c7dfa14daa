"""The printed replies, from a file of the user's; the texts here are our own."""

import json

import pandas as pd
import pytest
from judge_servers import Server
from test_judgements import GPT35, Halves, replies

from dre.errors import DreError
from dre.paper import check, judgements, plan, printed_cases
from dre.paper.profile import PROJECT, JudgeSettings, profile


def case(name, n):
    responses = [f"Reply {k} of {name}." for k in range(1, n + 1)]
    return {"id": name, "context": ["Snow?", "Rain."], "reference": "Sun.", "responses": responses}


CASES = [case(name, n) for name, n in printed_cases.REPLIES.items()]


def write(path, cases):
    path.write_text("".join(json.dumps(record) + "\n" for record in cases))
    return path


def test_the_replies_come_in_the_order_of_the_papers_with_their_ids(tmp_path):
    table = printed_cases.read(write(tmp_path / "cases.jsonl", CASES[::-1]))
    shown = pd.read_csv(PROJECT / "results/printed_cases.csv")
    assert (
        table[["case", "reply"]].to_numpy().tolist() == shown[["case", "reply"]].to_numpy().tolist()
    )
    assert table["pair_id"][1] == "DRE 1/2" and table["context"][0] == ("Snow?", "Rain.")
    assert table["response"].tolist()[-1] == "Reply 1 of SLIDE 3."


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        (CASES[:-1], "found no SLIDE 3, expected DRE 1"),
        ([*CASES, CASES[0]], r"cases.jsonl:6: the case DRE 1 is there twice"),
        ([{**CASES[0], "id": "DRE 3"}], r"cases.jsonl:1: found id 'DRE 3', expected one of DRE 1"),
        ([case("DRE 1", 1)], "DRE 1: found 1 responses, expected the 2 that are printed"),
        ([{**CASES[2], "reference": " "}], "SLIDE 1: a response or the reference is missing"),
        ([{**CASES[2], "context": []}], "SLIDE 1: the context is"),
    ],
)
def test_a_fault_of_the_file_is_named(tmp_path, cases, message):
    with pytest.raises(DreError, match=message):
        printed_cases.read(write(tmp_path / "cases.jsonl", cases))


# Tables of the replies


@pytest.fixture
def server(with_openai_key):
    with Server(replies) as server:
        yield server


def asked(server, path, *optional):
    """A live judge of a profile that names the file, asked what the profile plans."""
    values = {
        "judges": (JudgeSettings(model=GPT35, base_url=server.url, price="1,2"),),
        "cases": str(path),
        "optional_prompts": optional,
        "samples": 1,
        "labels_per_kind": 3,
        "notebooks": ("05_case_studies",),
    }
    settings = profile("mini").model_copy(update=values)
    of_cases = [
        question for question in plan.asks(settings) if "SLIDE 1/1" in {*question.pairs["pair_id"]}
    ]
    assert [question.prompt for question in of_cases] == ["llm_only", *optional, "dre"]
    (judge,) = judgements.panel(settings)
    judge.ask(plan.pairs_to_label(settings), "classify")
    for question in of_cases:
        numbers = None
        if question.training:
            numbers = judge.numbers(question.pairs, Halves(), settings.main_set)
        judge.ask(question.pairs, question.prompt, numbers)
    return judge


def test_the_printed_replies_have_the_rows_of_table_6_beside_print(server, tmp_path):
    judge = asked(server, write(tmp_path / "cases.jsonl", CASES))
    table = plan.printed_replies(judge.settings)
    n_calls = len(server.requests)
    told = printed_cases.judged(judge, table, Halves(), judge.settings.main_set)
    overlap = pd.DataFrame({name: [0.1 * i for i in range(7)] for name in printed_cases.OVERLAP})
    small = {"paper": Halves().score(table)}

    rows = printed_cases.table6(table, overlap, small, [told], PROJECT)

    assert len(server.requests) == n_calls
    by_print = rows.set_index("row_in_print")
    printed = pd.read_csv(PROJECT / "data/paper/dre_table6.csv", index_col="metric")
    assert {*by_print.index} == {*printed.index}
    columns = printed_cases.COLUMNS["DRE"]
    for metric in printed.index:
        in_print = by_print.loc[metric, [f"{column}_printed" for column in columns]]
        assert in_print.tolist() == printed.loc[metric, columns].tolist()
    assert by_print.loc["BLEU-2", columns].tolist() == pytest.approx([0, 0.5, 1, 1.5])
    # The second reply of the first case, followed by hand.
    s_p = len("Reply 2 of DRE 1.") / 200
    plain, hinted = told.alone[1], told.hinted[1]
    expected = {
        "SLM(prob-only)": 5 * s_p,
        "non-DRE": plain,
        "in-DRE": hinted,
        "ex-DRE": 2 * s_p * plain / 2,
        "DRE": 2 * s_p * hinted / 2,
    }
    for metric, value in expected.items():
        assert by_print.loc[metric, columns[1]] == pytest.approx(value), metric
    assert str(by_print.loc["ex-DRE", "method"]) == f"Ex-DRE ({GPT35})"


def test_slides_cases_stand_beside_the_printed_rows_of_the_same_judge(server, tmp_path):
    path = write(tmp_path / "cases.jsonl", CASES)
    judge = asked(server, path, "geval", "analyse_rate", "slide_a1")
    table = plan.printed_replies(judge.settings)
    told = printed_cases.judged(judge, table, Halves(), judge.settings.main_set)

    rows = printed_cases.slide_tables(table, {"paper": Halves().score(table)}, [told], PROJECT)

    by_print = rows.set_index("row_in_print")
    printed = pd.read_csv(PROJECT / "data/paper/slide_table3.csv", index_col="metric")
    assert {*by_print.index} == {*printed.index}
    assert by_print.loc["SLIDE (GPT-3.5)", "case2_printed"] == 2.79
    slm = 2 * len("Reply 1 of SLIDE 2.") / 200
    llm = told.by_family["slide_a1"][5] * 2 / 5
    fused = slm if slm >= 1 else llm if llm < 1 else (slm + llm) / 2
    assert by_print.loc["SLIDE (GPT-3.5)", "case2"] == pytest.approx(2.5 * fused)
    assert by_print.loc["SLM", "case2"] == pytest.approx(2.5 * slm)
    assert by_print.loc["G-EVAL (GPT-3.5)", "case1"] == told.by_family["geval"][4]
    assert by_print.loc["SLIDE (GPT-4)", ["case1", "case2", "case3"]].isna().all()


def test_a_file_with_a_fault_is_refused_before_anything_is_asked(tmp_path):
    path = write(tmp_path / "cases.jsonl", CASES[:2])
    settings = profile("full").model_copy(update={"cases": str(path)})
    with pytest.raises(DreError, match="full.yaml, cases: .*found no SLIDE 1"):
        check.check(settings)
    assert plan.printed_replies(profile("full")) is None
