"""Damaged models and checkpoints are one sentence, and what is not a number is no score."""

import json
import re
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from test_score import saved_slm
from test_train import DEV, TRAIN, command, extra, few_contexts

from dre import DRE
from dre.commands.main import main
from dre.errors import DreError
from dre.slm import SLM, fit
from dre.slm.encoder import load_encoder
from dre.slm.ours import FILE
from dre.slm.provenance import hashes_of_files

CONTEXTS = [["Do you like tea?"], ["Was the train late?", "It was."]]
RESPONSES = ["Yes, with milk.", "No, it was not."]
HEAD, ENCODER = "head.safetensors", "model.safetensors"


@pytest.fixture(scope="module")
def whole(encoder, tmp_path_factory):
    """Folders of whole models, by recipe."""
    folder = tmp_path_factory.mktemp("whole")
    fit(TRAIN[:8], DEV, folder / "ours", "ours", 0, encoder, False, extra())
    return {"ours": folder / "ours", "paper": saved_slm(folder)}


def describe(folder, change):
    """Change the description of a model."""
    path = folder / "slm.json"
    description = json.loads(path.read_text())
    change(description)
    path.write_text(json.dumps(description))


def hash_again(folder):
    """Write the hashes of the files as they are now."""
    describe(folder, lambda description: description.update(sha256=hashes_of_files(folder)))


def flip(name):
    """Change the last bytes of a file."""

    def change(folder):
        content = bytearray((folder / name).read_bytes())
        content[-2000:] = bytes(byte ^ 0xFF for byte in content[-2000:])
        (folder / name).write_bytes(content)

    return change


def rewrite(name, change):
    """Change weights as somebody would who knows of hashes."""

    def change_weights(folder):
        state = load_file(folder / name)
        change(state)
        save_file(state, folder / name, {"format": "pt"})
        hash_again(folder)

    return change_weights


def set_first(key, value):
    return lambda state: state[key].view(-1)[0].fill_(value)


def replace_in(name, old, new):
    """Replace a text in a file, which no hash was to be made of again."""

    def change(folder):
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return change


def set_number(name, value):
    return lambda folder: describe(folder, lambda d: d["provenance"].update({name: value}))


def set_length(value):
    return lambda folder: describe(folder, lambda d: d["recipe"].update(max_seq_length=value))


def take(folder):
    describe(folder, lambda description: description.pop("sha256"))


NOT_FINITE = "numbers that are not finite"
CHANGED = "has not the hash that slm.json has of it"
POOLING = "1_Pooling/config.json"
LOST = "encoder.layer.0.attention.output.LayerNorm.bias"
SCALES = {"fit": [0.1, 0.2], "quality": [0.1, 0.2]}
DAMAGES = {
    "weights of ours": ("ours", flip(FILE), f"{FILE} {CHANGED}"),
    "no weights": ("ours", lambda folder: (folder / FILE).unlink(), f"{FILE} {CHANGED}"),
    "the head": ("paper", flip(HEAD), f"{HEAD} {CHANGED}"),
    "the encoder": ("paper", flip(ENCODER), f"{ENCODER} {CHANGED}"),
    "pooling": ("paper", replace_in(POOLING, '"mean"', '"cls"'), f"{POOLING} {CHANGED}"),
    "tokenizer": ("paper", replace_in("tokenizer.json", '"yes"', '"tes"'), f"zer.json {CHANGED}"),
    "config": ("paper", replace_in("config.json", '"gelu"', '"relu"'), f"config.json {CHANGED}"),
    "one more file": (
        "paper",
        lambda folder: (folder / "added_tokens.json").write_text("{}"),
        CHANGED,
    ),
    "no hashes": ("paper", take, "an earlier version .* train it again"),
    "a weight of the encoder": (
        "paper",
        rewrite(ENCODER, lambda state: state.pop(LOST)),
        f"it lacks weights: {LOST}",
    ),
    "a weight of the head": ("paper", rewrite(HEAD, lambda s: s.pop("robust.bias")), "robust.bias"),
    "one number for all": (
        "ours",
        rewrite(FILE, lambda state: state.update({"0.up": torch.ones(1, 1).half()})),
        "other weights 0.up than recipe ours",
    ),
    "a missing matrix": ("ours", rewrite(FILE, lambda s: s.pop("1.up")), "other weights 1.up"),
    "infinite": ("ours", rewrite(FILE, set_first("3.down", torch.inf)), "not all finite"),
    "not a number": ("paper", rewrite(HEAD, set_first("robust.bias", torch.nan)), "not all finite"),
    "another format": ("ours", lambda f: describe(f, lambda d: d.update(format=9)), "format is 9"),
    "another recipe": (
        "ours",
        lambda folder: describe(folder, lambda d: d["recipe"].update(name="graded")),
        "recipe 'graded' is none of paper",
    ),
    "an empty range": ("paper", set_number("d_max", -9), "no d_max above d_min"),
    "a range in words": ("ours", set_number("d_max", "0.9"), NOT_FINITE),
    "an infinite range": (
        "paper",
        set_number("d_min", -np.inf),
        NOT_FINITE,
    ),
    "a threshold in words": (
        "ours",
        set_number("threshold", "high"),
        NOT_FINITE,
    ),
    "scales of one answer": ("ours", set_number("scales", {"fit": [0.1, 0.2]}), "lacks scales of"),
    "half a scale": ("ours", set_number("scales", SCALES | {"fit": [0.1]}), "not enough values"),
    "a scale of width 0": ("ours", set_number("scales", SCALES | {"fit": [0, 0]}), "above 0"),
    "no token is read": ("paper", set_length(-5), "max_seq_length is -5: it has to be above 2"),
    "only special tokens": ("paper", set_length(2), "max_seq_length is 2: it has to be above 2"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_model_is_one_sentence_and_gives_no_score(whole, tmp_path, damage, capsys):
    recipe, do_damage, message = DAMAGES[damage]
    folder = shutil.copytree(whole[recipe], tmp_path / "slm")
    do_damage(folder)
    table = tmp_path / "in.jsonl"
    records = [{"context": c, "response": r} for c, r in zip(CONTEXTS, RESPONSES)]
    table.write_text("".join(json.dumps(record) + "\n" for record in records))
    capsys.readouterr()

    assert main(["score", str(table), "--slm", str(folder), "-o", str(tmp_path / "out.csv")]) == 2

    (error,) = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
    assert str(folder) in error and re.search(message, error)
    assert not (tmp_path / "out.csv").exists()
    with pytest.raises(DreError, match=message):
        SLM.load(folder)


def test_a_readme_may_be_added(whole, tmp_path):
    folder = shutil.copytree(whole["paper"], tmp_path / "slm")
    (folder / "README.md").write_text("A model.")
    (folder / ".gitattributes").write_text("")
    assert SLM.load(folder).recipe.name == "paper"


def test_an_encoder_without_a_pooler_is_read_and_one_without_another_weight_is_not(
    encoder, tmp_path
):
    folder = shutil.copytree(encoder, tmp_path / "encoder")
    state = load_file(folder / ENCODER)
    del state["pooler.dense.bias"]
    save_file(state, folder / ENCODER, {"format": "pt"})
    load_encoder(str(folder))
    del state[LOST]
    save_file(state, folder / ENCODER, {"format": "pt"})
    with pytest.raises(DreError, match=f"cannot be read .it lacks weights: {LOST}"):
        load_encoder(str(folder))


def test_a_score_that_is_not_finite_is_never_ok_and_no_judge_is_asked(whole):
    asked = []

    def judge(context, response):
        asked.append(response)
        return 3.0

    for options in ({}, {"judge": judge, "method": "product"}):
        metric = DRE.load(slm=whole["paper"], **options)
        metric.slm.head.robust.weight.data.fill_(3e38)
        table = metric.score(CONTEXTS, RESPONSES)
        assert set(table["status"]) == {"error"}
        assert table["reason"].str.contains("not a finite number").all()
        numbers = ["score", "score_slm", "distance", "scaled_distance", "fits"]
        assert table[numbers].isna().all(axis=None)
    assert not asked


def flip_in_the_middle(content):
    middle = len(content) // 2
    flipped = bytes(byte ^ 0xFF for byte in content[middle:][:2000])
    return content[:middle] + flipped + content[middle + 2000 :]


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-3000], lambda _: b"noise" * 4000, flip_in_the_middle]
)
def test_a_damaged_checkpoint_is_a_sentence_that_says_what_to_delete(
    encoder, tmp_path, capsys, monkeypatch, damage
):
    def interrupt(*_):
        raise KeyboardInterrupt

    options = command(encoder, tmp_path / "slm", few_contexts(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(SLM, "save", interrupt)
        assert main(options) == 130
    capsys.readouterr()
    checkpoint = tmp_path / "slm.checkpoint"
    checkpoint.write_bytes(damage(checkpoint.read_bytes()))

    assert main(options) == 2

    error = capsys.readouterr().err
    assert f"{checkpoint} is damaged" in error and "delete it and give the same command" in error
    assert "weights_only" not in error and "Traceback" not in error
    checkpoint.unlink()
    assert main(options) == 0
