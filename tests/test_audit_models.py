"""The audit on true SLMs of a tiny encoder, on ratings, in one table and in words."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from sentence_transformers import SentenceTransformer
from test_audit_scores import additive, contexts, length, overlap, scorer, subject

from dre import classification
from dre.audit import alter, blind, logits, ratings, scorers, subjects, summary, swap, variance
from dre.correlation.domains import Domain
from dre.data import pairs
from dre.errors import DreError
from dre.report import Table, plots_audit
from dre.slm import recipes
from dre.slm.encoder import load_encoder
from dre.slm.head import Head
from dre.slm.model import SLM


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny.encoder(tmp_path_factory.mktemp("tiny"))


def slm(encoder, seed, recipe="paper"):
    """An SLM with a random head, as good as any for algebra."""
    torch.manual_seed(seed)
    base = load_encoder(encoder)
    head = Head(base.get_embedding_dimension(), recipes.get(recipe).sep, recipes.get(recipe).head)
    if head.sep == "maps":
        head.robust.weight.data += 0.3 * torch.randn_like(head.robust.weight)
    made = SLM(SentenceTransformer(modules=[*base, head]), recipes.get(recipe))
    made.provenance |= {
        "d_min": 0.0, "d_max": 1.0, "fingerprint": f"{seed:08d}", "recipe": {"name": recipe}, "seed": seed, "encoder": "tiny",
    }  # fmt: skip
    return made


@pytest.fixture(scope="module")
def table():
    return pairs(contexts(), kinds="par")


@pytest.fixture(scope="module")
def examined(encoder, table):
    """A blind rule, the untrained encoder, and two seeds of an SLM."""
    every = [
        scorers.blind("length only", "words", classification.length_only, table),
        scorers.untrained("untrained", encoder),
        scorers.trained("SLM, paper", [slm(encoder, 0), slm(encoder, 1)]),
    ]
    return [subjects.examine(one, table, table) for one in every]


def test_slms_give_their_three_scores_a_row_a_seed(encoder, table):
    models = [slm(encoder, 0), slm(encoder, 1)]
    found = scorers.trained("SLM, paper", models)(table)
    assert list(found) == ["Prob & Dis", "Dis", "Prob"]
    for row, model in enumerate(models):
        alone = model.score(table)
        np.testing.assert_allclose(found["Prob & Dis"][row], alone["score_slm"], atol=1e-5)
        np.testing.assert_allclose(found["Dis"][row], 1 - alone["s_d"], atol=1e-5)
        np.testing.assert_allclose(found["Prob"][row], alone["s_p"], atol=1e-5)
    with pytest.raises(DreError, match="no SLM for SLM, paper"):
        scorers.trained("SLM, paper", [])


def test_a_grid_costs_no_encoding_once_its_texts_are_known(encoder, table, monkeypatch):
    read = []
    encode = SentenceTransformer.encode
    monkeypatch.setattr(
        SentenceTransformer, "encode", lambda self, texts, **k: read.extend(texts) or encode(self, texts, **k)
    )
    score = scorers.trained("SLM, paper", [slm(encoder, 0)])
    cells = variance.grid(table, 6)
    score(cells)
    assert len(read) == len(set(read)) == 12  # 36 pairs of 6 contexts and 6 responses
    score(cells)
    score(swap.exchange(cells, 2))
    assert len(read) == 12


def test_the_untrained_encoder_is_the_cosine_of_what_an_slm_reads(encoder, table):
    found = scorers.untrained("untrained", encoder)(table)["cosine"][0]
    base = load_encoder(encoder)
    texts = [" [SEP] ".join(context) for context in table["context"]]
    left, right = (base.encode(list(t), normalize_embeddings=True) for t in (texts, table["response"]))
    np.testing.assert_allclose(found, (left * right).sum(axis=1), atol=1e-5)


def test_the_logits_of_equation_15_have_no_interaction_and_s_p_next_to_none(examined):
    found = logits.table(examined, size=6)
    assert list(found["model"]) == ["SLM, paper"]
    assert found.loc[0, "interaction"] == logits.NONE and found.loc[0, "reason"] == ""
    assert 0 < found.loc[0, "probability"] < 100
    parts = variance.table(examined, size=6, resamples=20).set_index(["model", "score"])
    assert parts.loc[("SLM, paper", "Prob"), "interaction"] == pytest.approx(found.loc[0, "probability"], rel=1e-3)
    assert parts.loc[("SLM, paper", "Dis"), "interaction"] > 1, "the distance compares the two"


def test_a_head_that_multiplies_is_left_out_with_its_reason_and_would_be_found_out(encoder, table):
    cells, model = variance.grid(table, 6), slm(encoder, 0, "context")
    assert logits._logit_shares(slm(encoder, 0), cells)[0] < variance.ROUNDING
    assert logits._logit_shares(model, cells)[0] > 1e-3
    one = subjects.examine(scorers.trained("SLM, context", [model]), table, table)
    found = logits.table([one], size=6)
    assert found.loc[0, "reason"] == logits.NOT_ADDITIVE and found.loc[0, "interaction"] == ""
    assert "Eq. 15" in Table("t", found, "c", why="reason").markdown()
    parts = variance.table([one], size=6, resamples=20).set_index("score")
    assert parts.loc["Prob", "interaction"] > 1, "products of the two can say that they belong together"


def domain(n=12):
    items = pd.DataFrame(
        {
            "pair_id": [f"x{i}" for i in range(n)],
            "context_id": [f"c{i // 2}" for i in range(n)],
            "context": [("how was it",)] * n,
            "response": ["well " * (i + 1) for i in range(n)],
            "human": np.arange(n, dtype=float),
        }
    )
    return Domain("toy", "Toy", "toy", items)


def test_ratings_before_and_after_by_hand():
    count = lambda c, r: len(r.split())  # noqa: E731
    untrained = scorer(lambda c, r: len(r.split()) % 2, "untrained", "untrained")
    good, bad = scorer(count, "good"), scorer(lambda c, r: -count(c, r), "bad")
    found = ratings.table([untrained, good, bad], [domain()], resamples=50, permutations=200).set_index("model")
    assert found.loc["good", "spearman"] == pytest.approx(1) and found.loc["bad", "spearman"] == pytest.approx(-1)
    base = found.loc["untrained", "spearman"]
    assert found.loc["good", "difference"] == pytest.approx(1 - base)
    assert found.loc["bad", "difference"] == pytest.approx(-1 - base)
    assert found.loc["untrained", "answer"] == "" and np.isnan(found.loc["untrained", "p_holm"])
    assert (found.loc[["good", "bad"], "p_holm"] >= found.loc[["good", "bad"], "p"]).all()
    assert list(found["n"]) == [12] * 3


def parts(examined):
    reader = examined[0]
    found = (
        blind.accuracies(examined, 20),
        blind.agreement(examined, reader, 20),
        swap.table(examined, 2, 20),
        alter.table(examined, 20),
        variance.table(examined, 6, 20),
    )
    return found, ratings.table([one.scorer for one in examined], [domain()], 20, permutations=50)


def test_one_row_a_model_with_the_numbers_of_its_main_score(examined):
    found, rated = parts(examined)
    audit = summary.table(*found, rated)
    assert list(audit["model"]) == ["length only", "untrained", "SLM, paper"]
    row = audit.set_index("model").loc["SLM, paper"]
    accuracies, agreement, swaps, altered, variances = found
    assert row["score"] == "Prob & Dis" and row["seeds"] == 2 and "slm:" in row["signature"]
    main = (swaps["model"] == "SLM, paper") & (swaps["score"] == "Prob & Dis")
    assert (
        row["falls"] == swaps.loc[main, "falls"].item() and row["swapped_accepted"] == swaps.loc[main, "other"].item()
    )
    elsewhere = altered[(altered["model"] == "SLM, paper") & (altered["shown"] == alter.OTHER)]
    assert row["other_context"] == elsewhere["overall"].item()
    assert row["spearman_toy"] == rated[rated["model"] == "SLM, paper"]["spearman"].iloc[0]
    assert np.isnan(audit.set_index("model").loc["length only", "same"])
    assert "spearman_toy" not in summary.table(*found)
    text = summary.reading(audit, swaps, altered, variances, logits.table(examined, 6), rated)
    for number in (row["overall"], row["falls"], row["interaction"]):
        assert f"{number:.1f} % [" in text
    assert "no interaction beyond rounding (SLM, paper)" in text and "Toy" in text
    assert f"another context {elsewhere['change'].item():.2f}." in text and alter.OWN not in text


def test_the_words_follow_the_numbers():
    def words(function):
        found = [
            subject(length, "length only", "blind"),
            subject(additive, "untrained", "untrained"),
            subject(function, "SLM, x"),
        ]
        every, _ = parts(found)
        return summary.reading(summary.table(*every), *every[2:], logits.table([]))

    assert "no sign that it notices the exchange, with a mean fall of 0.00" in words(length)
    found = words(overlap)
    assert "it notices the exchange, with" in found and "own conversation, 0.0 % in the wrong" in found
    assert "it notices the exchange, but barely" in words(lambda c, r: overlap(c, r) + 50.0 * (len(r) % 3))
    assert "it prefers the other context" in words(lambda c, r: -overlap(c, r) - 2.0 * (len(r) > 25))
    assert "Eq. 15" not in words(length)


def test_figures_have_a_line_a_score(examined, tmp_path):
    found, rated = parts(examined)
    for draw, table in ((plots_audit.swaps, found[2]), (plots_audit.variance, found[4])):
        fig = draw(table)
        names = [text.get_text() for text in fig.axes[0].get_yticklabels()]
        assert names == [
            "length only: words",
            "untrained: cosine",
            *(f"SLM, paper: {s}" for s in ("Prob & Dis", "Dis", "Prob")),
        ]
        fig.savefig(tmp_path / "figure.png")
        plt.close(fig)
    twice = pd.concat([rated, rated.assign(domain="Other")])
    fig = plots_audit.ratings(twice)
    assert [ax.get_title() for ax in fig.axes] == ["Toy", "Other"]
    assert [text.get_text() for text in fig.axes[0].get_yticklabels()] == names
    plt.close(fig)
