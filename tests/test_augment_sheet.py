"""The human check sheet: what is written, what comes back, and what is refused."""

import csv

import pytest

from dre.augment import sheet
from dre.data import load
from dre.errors import DreError


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "sheet.csv"
    key = sheet.write(load("mini", "test"), path, n=20, seed=2)
    return path, key


def rows(path):
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def fill(path, key, out, wrong=(), delimiter=",", end="\n", bom=False):
    """Answer as designed, but for some items."""
    design = {row["item"]: row["kind"] == "p" for row in rows(key)}
    filled = rows(path)
    for row in filled:
        row["fits"] = "Yes" if design[row["item"]] != (int(row["item"]) in wrong) else "no "
    with open(out, "w", encoding="utf-8-sig" if bom else "utf-8", newline="") as file:
        writer = csv.DictWriter(file, sheet.COLUMNS, delimiter=delimiter, lineterminator=end)
        writer.writeheader()
        writer.writerows(filled)
    return out


def test_a_sheet_is_blind_shuffled_and_balanced(written):
    path, key = written
    assert key.name == "sheet.key.csv"
    shown, kept = rows(path), rows(key)
    assert list(shown[0]) == list(sheet.COLUMNS) and {row["fits"] for row in shown} == {""}
    kinds = [row["kind"] for row in kept]
    assert kinds.count("p") == kinds.count("a") == 10 and kinds != sorted(kinds) and kinds != sorted(kinds)[::-1]
    responses = {c.pair_id(k, i): t for c in load("mini", "test") for k in "pa" for i, t in enumerate(c.responses(k))}
    assert [row["response"] for row in shown] == [responses[row["pair_id"]] for row in kept]
    assert shown[0]["context"].startswith("A: ") and "\nB: " in shown[0]["context"]


def test_a_seed_repeats_a_sheet(written, tmp_path):
    path, key = written
    sheet.write(load("mini", "test"), tmp_path / "again.csv", n=20, seed=2)
    sheet.write(load("mini", "test"), tmp_path / "other.csv", n=20, seed=3)
    assert path.read_bytes() == (tmp_path / "again.csv").read_bytes() != (tmp_path / "other.csv").read_bytes()


def test_answers_are_compared_with_the_design_and_each_other(written, tmp_path):
    path, key = written
    kept = rows(key)
    positives = [int(row["item"]) for row in kept if row["kind"] == "p"]
    one = fill(path, key, tmp_path / "one.csv")
    # Two positives called wrong: 18 of 20 right; 8 yes of 20, so kappa = (.9 - .5) / .5 = .8 with the design.
    two = fill(path, key, tmp_path / "two.csv", wrong=positives[:2], delimiter=";", end="\r\n", bom=True)
    answers, summary = sheet.read([one, two], key)
    assert list(answers["two"] == answers["one"]).count(False) == 2
    value = summary.set_index(["annotator", "measure"])["value"]
    assert value["one", "overall"] == 100 and value["one", "kappa with the design"] == pytest.approx(1)
    assert value["two", "positive"] == 80 and value["two", "adversarial"] == 100 and value["two", "overall"] == 90
    assert value["two", "kappa with the design"] == pytest.approx(0.8)
    assert value["one, two", "kappa"] == pytest.approx(0.8)
    assert set(summary["n"]) == {10, 20}
    interval = summary[(summary["annotator"] == "two") & (summary["measure"] == "overall")].iloc[0]
    assert interval["low"] < 90 < interval["high"] <= 100


def test_one_sheet_alone_has_no_kappa_between_annotators(written, tmp_path):
    _, summary = sheet.read(fill(*written, tmp_path / "one.csv"), written[1])
    assert list(summary["measure"]) == ["positive", "adversarial", "overall", "kappa with the design"]


def change(out, item, /, **values):
    filled = rows(out)
    for row in filled:
        if row["item"] == item:
            row.update(values)
    with open(out, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, sheet.COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(filled)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"fits": "maybe"}, "item 3 is answered 'maybe', expected yes or no"),
        ({"fits": ""}, "item 3 is answered '', expected yes or no"),
        ({"item": "4"}, "item 4 stands there twice"),
        ({"item": "99"}, "item '99' is not one of the key's 1 to 20"),
        ({"response": "Something else."}, "the text of item 3 was changed"),
    ],
)
def test_faults_are_named_with_their_line(written, tmp_path, values, message):
    out = fill(*written, tmp_path / "one.csv")
    before = out.read_text().split("\n")
    line = 1 + next(i for i, text in enumerate(before) if text.startswith("3,"))
    change(out, "3", **values)
    at = line if "twice" not in message else next(i for i, t in enumerate(before, 1) if t.startswith("4,"))
    with pytest.raises(DreError, match=message) as error:
        sheet.read(out, written[1])
    assert f"one.csv:{at}: " in str(error.value)


def test_missing_rows_and_columns_are_named(written, tmp_path):
    out = fill(*written, tmp_path / "one.csv")
    kept = [row for row in rows(out) if row["item"] != "5"]
    with open(out, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, sheet.COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)
    with pytest.raises(DreError, match="no row for item 5"):
        sheet.read(out, written[1])
    out.write_text("item,response\n1,a\n")
    with pytest.raises(DreError, match="one.csv:1: no column context, fits"):
        sheet.read(out, written[1])


def test_a_damaged_key_is_refused(written, tmp_path):
    out = fill(*written, tmp_path / "one.csv")
    written[1].write_text("item,pair_id,context_id,kind,sha256\none,a,b,p,c\n")
    with pytest.raises(DreError, match="sheet.key.csv:2: item 'one', expected a number"):
        sheet.read(out, written[1])
    with pytest.raises(DreError, match="each of another name"):
        sheet.read([], written[1])


def test_a_sheet_is_never_overwritten_and_needs_enough_pairs(written, tmp_path):
    with pytest.raises(DreError, match="is there already, perhaps with answers"):
        sheet.write(load("mini", "test"), written[0], n=20)
    with pytest.raises(DreError, match="a sheet of 999 pairs needs 500 of kind 'p', found 160"):
        sheet.write(load("mini", "test"), tmp_path / "big.csv", n=999)
    with pytest.raises(DreError, match="ends in .csv"):
        sheet.write(load("mini", "test"), tmp_path / "sheet.xlsx")
    assert not list(tmp_path.glob("*.part"))


def test_a_response_is_never_a_formula(tmp_path):
    from dataclasses import replace

    own = replace(load("mini", "test")[0], positives=("=1+1",), adversarials=("- no, thanks",))
    key = sheet.write([own], tmp_path / "sheet.csv", n=2)
    assert {row["response"] for row in rows(tmp_path / "sheet.csv")} == {"'=1+1", "'- no, thanks"}
    out = fill(tmp_path / "sheet.csv", key, tmp_path / "one.csv")
    filled = {row["item"]: row["response"].removeprefix("'") for row in rows(out)}  # as a spreadsheet program saves it
    for item, response in filled.items():
        change(out, item, response=response)
    answers, _ = sheet.read(out, key)
    assert list(answers["one"]) == [float(kind == "p") for kind in answers["kind"]]
