"""Recordings of a judge: faulty ones are refused, and no other texts are answered for."""

import gzip
import json

import pytest

import dre.judges
from dre.commands.main import main
from dre.datasets import recordings
from dre.errors import DreError
from dre.judges import prompts

PAIRS = [
    {"pair_id": "a/1", "context": ("Is it open?",), "response": "Until noon."},
    {"pair_id": "a/2", "context": ("Is it open?",), "response": "I like noon."},
]


def record(folder, lines, manifest="default", hashed=("llm_only", "a/1", "a/2")):
    """Write a recording, and return its name as a user gives it."""
    folder.mkdir()
    if manifest == "default":
        manifest = json.dumps({"prompts": {"llm_only": {}}})
    if manifest is not None:
        (folder / "manifest.json").write_text(manifest, encoding="utf-8")
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "judgements.jsonl").write_text(text, encoding="utf-8")

    content_by_name = {"llm_only": prompts.load("llm_only")}
    for pair in PAIRS:
        content_by_name[pair["pair_id"]] = pair
    hashes = {name: recordings.hash_of(content_by_name[name]) for name in hashed}
    content = gzip.compress(json.dumps(hashes).encode())
    (folder / recordings.FILE).write_bytes(content)
    return f"recorded:{folder}"


def line(pair_id="a/1", **fields):
    return {"pair_id": pair_id, "prompt": "llm_only"} | fields


def test_a_recording_repeats_what_it_has(tmp_path):
    lines = [line("a/1", score=4), line("a/2", status="refused")]
    table = dre.judges.open(record(tmp_path / "mine", lines)).score(PAIRS)
    assert table["status"].tolist() == ["ok", "refused"]
    assert table["score_llm"][0] == 4
    assert table["score_llm"].isna()[1]


FAULTY_LINES = {
    "neither a score nor a label": (line(), "expected a score, a label, or a status"),
    "an influence alone": (line(influence=0.5), "expected a score, a label, or a status"),
    "ok without a score": (line(status="ok"), "expected either a score or a label"),
    "refused, and a score": (line(status="refused", score=3), "expected either a score or a"),
    "a truth value": (line(score=True), "score is True, expected a number from 0 to 5"),
    "no number": (line(score=None), "score is None, expected a number from 0 to 5"),
    "a truth value as influence": (
        line(score=3, influence=False),
        "influence is False, expected a number from 0 to 1",
    ),
    "a label of others": (line(label="Yes"), "label is 'Yes', expected Positive or Negative"),
    "a list of labels": (line(label=["Positive"]), "label is .*, expected Positive or Negative"),
    "a list of repeats": (line(repeat=[1], score=3), "repeat is .*, expected a whole number"),
    "a repeat below 0": (line(repeat=-1, score=3), "repeat is -1, expected a whole number"),
    "a list as prompt": (
        {"pair_id": "a/1", "prompt": ["llm_only"], "score": 3},
        "prompt is .*, expected a prompt of the manifest",
    ),
    "a prompt that was not asked": (line(prompt="dre", score=3), "expected a prompt of the mani"),
    "no pair": ({"prompt": "llm_only", "score": 3}, "pair_id is None, expected the id of a pair"),
    "no object": ([1], "expected"),
    "no finite number": (line(score=float("nan")), "score is nan, expected a number from 0 to 5"),
    "a list as status": (line(status=["ok"], score=3), "status is .*, expected one of"),
    "a list shown": (line(score=3, shown=["a/2"]), "shown is .*, expected a pair of the same set"),
}


@pytest.mark.parametrize("fault", FAULTY_LINES)
def test_a_faulty_line_is_one_sentence_with_file_and_line(tmp_path, fault):
    faulty_line, message = FAULTY_LINES[fault]
    spec = record(tmp_path / "mine", [line("a/2", score=1), faulty_line])
    with pytest.raises(DreError, match=rf"judgements\.jsonl:2: {message}"):
        dre.judges.open(spec)


def test_a_line_that_is_there_twice_is_named(tmp_path):
    lines = [line("a/1", score=4), line("a/2", score=4), line("a/1", score=4)]
    spec = record(tmp_path / "mine", lines)
    with pytest.raises(DreError, match=r"judgements\.jsonl:3: .*a/1 is there twice"):
        dre.judges.open(spec)
    lines[2]["repeat"] = 1
    assert dre.judges.open(record(tmp_path / "other", lines)).score(PAIRS)["score_llm"][0] == 4


FAULTY_MANIFESTS = {
    "absent": (None, "there is no such file"),
    "no JSON": ("{", "expected JSON in UTF-8"),
    "a list": ("[]", 'expected an object with a key "prompts"'),
    "without prompts": ("{}", 'expected an object with a key "prompts"'),
    "prompts as a list": ('{"prompts": ["llm_only"]}', 'expected an object with a key "prompts"'),
}


@pytest.mark.parametrize("fault", FAULTY_MANIFESTS)
def test_a_faulty_manifest_is_one_sentence(tmp_path, fault):
    manifest, message = FAULTY_MANIFESTS[fault]
    spec = record(tmp_path / "mine", [line(score=1)], manifest)
    with pytest.raises(DreError, match=f"manifest.json: {message}"):
        dre.judges.open(spec)


@pytest.mark.parametrize("n_judgements, claim", [(3, "says 3: "), ('"two"', "says 'two': ")])
def test_a_file_with_lines_missing_is_refused(tmp_path, n_judgements, claim):
    manifest = f'{{"prompts": {{"llm_only": {{}}}}, "judgements": {n_judgements}}}'
    spec = record(tmp_path / "mine", [line(score=1)], manifest)
    with pytest.raises(DreError, match=f"found 1 judgements, but its manifest {claim}get"):
        dre.judges.open(spec)


def test_the_command_names_a_faulty_line_in_one_sentence(tmp_path, capsys):
    spec = record(tmp_path / "mine", [line()], hashed=())
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text("".join(json.dumps(pair) + "\n" for pair in PAIRS), encoding="utf-8")
    status = main(["judge", "run", str(pairs), "--judge", spec, "-o", str(tmp_path / "o.csv")])
    assert status == 2
    assert "judgements.jsonl:1: expected a score, a label, or a status" in capsys.readouterr().err


def test_a_text_without_a_hash_in_the_recording_is_refused(tmp_path):
    lines = [line("a/1", score=4), line("a/2", score=2)]
    spec = record(tmp_path / "mine", lines, hashed=("llm_only", "a/1"))
    judge = dre.judges.open(spec)
    assert judge.score(PAIRS[:1])["score_llm"].tolist() == [4]
    with pytest.raises(DreError, match="pair a/2 has other texts here"):
        judge.score(PAIRS)


def test_a_prompt_without_a_hash_in_the_recording_is_refused(tmp_path):
    spec = record(tmp_path / "mine", [line("a/1", score=4)], hashed=("a/1",))
    with pytest.raises(DreError, match="prompt llm_only has other words"):
        dre.judges.open(spec).score(PAIRS[:1])


def test_hashes_that_are_not_an_object_are_refused(tmp_path):
    spec = record(tmp_path / "mine", [line("a/1", score=4)])
    (tmp_path / "mine" / recordings.FILE).write_bytes(gzip.compress(b"[]"))
    with pytest.raises(DreError, match="expected hashes of what the judge was shown"):
        dre.judges.open(spec).score(PAIRS[:1])


def test_a_score_of_a_function_must_be_on_the_scale_and_an_error_in_it_has_a_status():
    def judge_by_length(context, response):
        return {"Until noon.": 6, "I like noon.": 5}[response]

    unknown = PAIRS[0] | {"pair_id": "a/3", "response": "?"}
    table = dre.judges.open(judge_by_length).score([*PAIRS, unknown])
    assert table["status"].tolist() == ["malformed", "ok", "error"]
    assert table["score_llm"][1] == 5
