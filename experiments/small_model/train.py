"""Train recipe ``ours`` as the model in the package was trained: on the data of profile ``public``.

Run ``python experiments/small_model/train.py SEED`` with the public data. The seed of the model in
the package is 0. It makes the folder build/public/models/all-ours-seedSEED-... in about 45 minutes
of one core, or four on a GPU, and no committed file. It prints the name of the folder, which
measure.py takes. After an interruption it goes on from its last checkpoint.

To put a training into the package, measure it, run notebook 08 of profile ``public``, and then:

    slm = dre.slm.SLM.load(FOLDER)
    slm.provenance["name"] = "default-5"
    slm.save("dre/slm/default")

The card in that folder, README.md, is written by hand; tests hold its numbers to the results.
"""

import sys

from dre.paper.profile import profile
from dre.paper.trainings import load_or_train


def main(seed: int) -> None:
    """Train one model unless it is there, and print its folder."""
    public = profile("public")
    slm = load_or_train(public, public.main_set, "ours", seed)
    (folder,) = (public.build / "models").glob(f"*-{slm.provenance['fingerprint'][:12]}")
    print(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]))
