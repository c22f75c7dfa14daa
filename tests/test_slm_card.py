"""The model card of a saved SLM, and models that lie on the Hub."""

import contextlib
import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading

import pytest
import scoring_data
import yaml

from dre.errors import DreError
from dre.slm import recipes
from dre.slm.card import card
from dre.slm.model import SLM

PROVENANCE = {
    "train_hash": "a" * 64,
    "dev_hash": "b" * 64,
    "contexts": {"train": 74, "dev": 14},
    "sets": {"mini train": 74},
    "seed": 5,
    "encoder": "minilm",
    "bf16": False,
    "fingerprint": "c" * 64,
    "versions": {"dre": "0.1.0", "torch": "2.13.0"},
    "d_min": 0.1,
    "d_max": 1.2,
    "curves": [
        {"stage": "joint", "epoch": e, "split": split, "contrastive_loss": 0.5, "triplet_accuracy": 0.7 + e / 10,
         "classification_loss": 1.0, "classification_accuracy": 0.6}
        for e in (0, 1)
        for split in ("train", "dev")
    ],
}  # fmt: skip


def front_of(text):
    _, front, body = text.split("---\n", 2)
    return yaml.safe_load(front), body


def test_the_card_says_what_the_model_is():
    front, body = front_of(card(recipes.get("paper"), PROVENANCE))
    assert front["base_model"] == "sentence-transformers/all-MiniLM-L6-v2"
    assert front["library_name"] == "sentence-transformers" and front["language"] == "en" and "dre" in front["tags"]
    for said in ("mini train (74 contexts)", "a" * 64, "c" * 64, "| seed | 5 |", "0.100000, 1.200000", "torch 2.13.0"):
        assert said in body
    assert "| dev | 1 | 0.5000 | 0.8000 |" in body and "0.7000" not in body
    assert "at most 128 tokens" in body and "Accuracy" not in body and "threshold" not in body


def test_a_measured_accuracy_and_a_threshold_are_told():
    body = card(recipes.get("paper"), PROVENANCE | {"threshold": 0.93, "accuracy": 0.8712})
    assert "| threshold on score_slm | 0.93 |" in body and "Accuracy at the threshold" in body and "0.8712" in body


def test_little_provenance_makes_a_card_all_the_same():
    front, body = front_of(card(recipes.get("released"), {"encoder": "/home/me/models/tiny"}))
    assert "base_model" not in front and "/home" not in body and "None" not in body and "## Measured" not in body
    assert "stages" in body or "contrastive 2, disentangle 2, classifier 2" in body


def test_the_hub_client_reads_the_card_of_a_saved_model(tmp_path):
    from huggingface_hub import ModelCard

    model = scoring_data.slm(tmp_path)
    model.set_threshold(0.9, accuracy=0.75)
    model.save(tmp_path / "slm")
    found = ModelCard.load(tmp_path / "slm" / "README.md")
    assert found.data.pipeline_tag == "text-classification" and "mini dev (14 contexts)" in found.text
    again = SLM.load(tmp_path / "slm")
    assert again.provenance["threshold"] == 0.9 and again.provenance["accuracy"] == 0.75
    again.set_threshold(1.1, accuracy=0.8)
    again.restate()
    stated = SLM.load(tmp_path / "slm")
    assert stated.provenance == again.provenance and "0.8000" in (tmp_path / "slm" / "README.md").read_text()
    with pytest.raises(DreError, match="no folder yet"):
        SLM(model.model, model.recipe).restate()
    for bad in ((float("nan"), None), (0.9, 75)):
        with pytest.raises(DreError, match="expected a number"):
            model.set_threshold(*bad)


class Hub(http.server.BaseHTTPRequestHandler):
    """What the Hub's client asks for: a repository's tree, and its files with commit and etag."""

    folder = None
    commit = "1" * 40
    fetched = []

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/own/slm/tree/"):
            return self.answer(json.dumps([entry | {"type": "file"} for entry in self.files()]).encode())
        if path.startswith("/api/models/own/slm"):
            siblings = [{"rfilename": entry["path"]} for entry in self.files()]
            return self.answer(json.dumps({"id": "own/slm", "sha": self.commit, "siblings": siblings}).encode())
        prefix = f"/own/slm/resolve/{self.commit}/"
        if path.startswith(prefix) and (self.folder / path.removeprefix(prefix)).is_file():
            name = path.removeprefix(prefix)
            if self.command == "GET":
                self.fetched.append(name)
            return self.answer((self.folder / name).read_bytes())
        self.send_response(404)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def files(self):
        found = [path for path in sorted(self.folder.rglob("*")) if path.is_file()]
        return [
            {
                "path": path.relative_to(self.folder).as_posix(),
                "size": path.stat().st_size,
                "oid": self.sha(path.read_bytes()),
            }
            for path in found
        ]

    @staticmethod
    def sha(data):
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()

    def answer(self, data):
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", f'"{self.sha(data)}"')
        self.send_header("X-Repo-Commit", self.commit)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def log_message(self, *args):
        """Stay silent."""


@contextlib.contextmanager
def hub(folder):
    handler = type("Handler", (Hub,), {"folder": folder, "fetched": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler.fetched
    finally:
        server.shutdown()
        server.server_close()


LOAD = """
import sys
from dre.errors import DreError
from dre.slm.model import SLM
try:
    print("loaded", SLM.load(sys.argv[1]).provenance["fingerprint"])
except DreError as error:
    print("error:", error)
"""


def load(name, home, **environment):
    """Load in a process of its own: the Hub's client reads its settings once."""
    environment = (
        os.environ | {"HF_HOME": str(home), "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_TELEMETRY": "1"} | environment
    )
    done = subprocess.run([sys.executable, "-c", LOAD, name], env=environment, capture_output=True, text=True)
    return done.stdout.strip().splitlines()[-1] if done.stdout else done.stderr


def test_a_model_is_fetched_from_the_hub_without_what_is_not_needed_and_then_loads_offline(tmp_path):
    folder = scoring_data.saved(tmp_path)
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    (folder / "train.py").write_text("raise SystemExit")
    with hub(folder) as (url, fetched):
        assert load("own/slm", tmp_path / "home", HF_ENDPOINT=url) == f"loaded {'f' * 64}"
    assert {"slm.json", "head.safetensors", "model.safetensors", "1_Pooling/config.json"} <= set(fetched)
    assert not {"pytorch_model.bin", "train.py"} & set(fetched)
    assert load("own/slm", tmp_path / "home", HF_HUB_OFFLINE="1") == f"loaded {'f' * 64}"
    said = load("own/other", tmp_path / "home", HF_HUB_OFFLINE="1")
    assert (
        said.startswith("error: own/other is no saved SLM here and could not be fetched")
        and "HF_HUB_OFFLINE is set" in said
    )


def test_a_recipe_with_a_mixture_says_what_it_learned_from_and_what_it_tells_apart():
    beside = {"dialogues": 33173, "dialogues_hash": "d" * 64, "graded": 1847, "graded_hash": "e" * 64}
    body = card(recipes.get("context"), PROVENANCE | {"beside": beside})
    assert "33,173 dialogues, 1,847 pairs with a judge's score" in body
    assert "from replies to other conversations" in body and "were no part of the training" not in body
    assert "products and differences" in body and "robust" not in body
    assert "learned from beside" not in card(recipes.get("paper"), PROVENANCE)
