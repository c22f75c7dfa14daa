"""Recordings of a judge: faulty ones are refused, and no other texts are answered for."""

import gzip
import json

import pytest

import dre.judges
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
    "neither a score nor a label": line(),
    "an influence alone": line(influence=0.5),
    "ok without a score": line(status="ok"),
    "refused, and a score": line(status="refused", score=3),
    "off the scale": line(score=6),
    "below the scale": line(score=-1),
    "a text as score": line(score="3"),
    "no pair": {"prompt": "llm_only", "score": 3},
    "no object": [1],
}


@pytest.mark.parametrize("fault", FAULTY_LINES)
def test_a_faulty_line_is_one_sentence_with_file_and_line(tmp_path, fault):
    spec = record(tmp_path / "mine", [line("a/2", score=1), FAULTY_LINES[fault]])
    with pytest.raises(DreError, match=r"judgements\.jsonl:2: found .*expected "):
        dre.judges.open(spec)


@pytest.mark.parametrize("manifest", [None, "{", "[]"])
def test_a_recording_without_a_manifest_is_refused(tmp_path, manifest):
    spec = record(tmp_path / "mine", [line(score=1)], manifest)
    with pytest.raises(DreError, match="a recording needs a manifest.json"):
        dre.judges.open(spec)


def test_a_file_that_is_not_the_one_of_its_manifest_is_refused(tmp_path):
    spec = record(tmp_path / "mine", [line(score=1)], '{"sha256": "0123"}')
    with pytest.raises(DreError, match="judgements.jsonl has sha256 .* expected 0123: get the fil"):
        dre.judges.open(spec)
    for name in recordings.names():
        assert "sha256" in json.loads((recordings.folder(name) / "manifest.json").read_text())


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
