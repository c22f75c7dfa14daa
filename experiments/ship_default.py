"""Make the SLM that comes with the package: of recipe ``graded``, profile ``public``, its first seed.

Run ``python experiments/ship_default.py VERSION``; the model is trained if it is not in build/. It writes
dre/slm/default: what was learned (4 MB), what it was learned from, and a card.
"""

import shutil
import sys

from dre.profile import profile
from dre.slm import load_or_train
from dre.slm.model import DEFAULT

CARD = """# The SLM that comes with dre

`{name}` (model {fingerprint}): recipe `graded`, seed {seed}, on the encoder {encoder}, whose own weights stay as they
are and are not in this folder. `adapter.safetensors` holds, in half precision, low-rank matrices that adapt the
encoder, and two heads; `slm.json` says what they were learned from, with hashes.

- **Does**: one number for a response in its dialogue, higher is better; `accepted` from {threshold:.3f} on. It is the
  sum of a likeness to the dialogue, of whether the response fits there, and of how good a reply it is, which count
  alike.
- **Learned from**: {contexts} labelled contexts of DailyDialog++ (dev), {dialogues:,} English dialogues (DailyDialog++,
  ConvAI2, Topical-Chat), and {graded:,} grades by a language model, `claude-2026-11`. Conversations that share an
  utterance with a set of human ratings used in this project were left out.
- **How good**: notebook 07 and docs/score.md, on sets with human ratings, beside length and the encoder as it was.
- **Not for**: other languages than English, single responses as the ground for a decision, facts. It saw chat between
  two people; grades come from a language model and carry its taste.
"""


def main(version):
    """Train or find the model, save it in the package."""
    public = profile("public")
    slm = load_or_train(public, public.sets[0].key, "graded", public.seed)
    about = slm.provenance
    about |= {"name": f"default-{version}"}
    shutil.rmtree(DEFAULT, ignore_errors=True)
    slm.save(DEFAULT)
    facts = {"contexts": about["contexts"]["train"], **{key: about["extra"][key] for key in ("dialogues", "graded")}}
    facts |= {key: about[key] for key in ("name", "seed", "encoder", "threshold")}
    (DEFAULT / "README.md").write_text(CARD.format(fingerprint=about["fingerprint"][:12], **facts), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
