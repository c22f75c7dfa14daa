"""Lexical negatives: the scores by hand, the guards, and the share that fits after all."""

import math
import random
import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dre.augment import false_negatives, lexical, retrieval
from dre.augment.guards import dialogue
from dre.data import contexts as public
from dre.data import load
from dre.data.records import Context
from dre.errors import DreError


def context(id, turns, positives, **more):
    return Context("own", id, more.pop("split", "train"), tuple(turns), tuple(positives), **more)


def bm25(query, texts, k1=1.2, b=0.75):
    """The published formula, written out word by word."""
    words = [retrieval.content_words(text) for text in texts]
    mean = sum(map(len, words)) / len(words)
    scores = []
    for own in words:
        total = 0.0
        for word in set(retrieval.content_words(query)):
            df = sum(word in other for other in words)
            idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
            tf = own.count(word)
            total += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(own) / mean))
        scores.append(total)
    return scores


WORDS = ["tea", "kettle", "kitchen", "train", "station", "ticket", "the", "of", "dog"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), min_size=1, max_size=6),
    st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join),
)
def test_bm25_is_the_published_formula(texts, query):
    if not any(retrieval.content_words(text) for text in texts):
        with pytest.raises(DreError, match="none of the .* texts has a content word"):
            retrieval.index(texts)
        return
    np.testing.assert_allclose(retrieval.index(texts)([query]).toarray()[0], bm25(query, texts), atol=1e-12)


def test_tfidf_scores_are_cosines():
    scores = retrieval.index(["kettle tea", "train ticket"], "tfidf")(["tea kettle", "the dog"]).toarray()
    np.testing.assert_allclose(scores, [[1, 0], [0, 0]], atol=1e-12)
    with pytest.raises(DreError, match="unknown retrieval method 'bm52': use bm25 or tfidf"):
        retrieval.index(["tea"], "bm52")


def test_function_words_and_what_contractions_leave_are_no_content():
    assert retrieval.content_words("I don't know, it's the bill you'll call about!") == ["bill", "call"]


def small():
    return [
        context(
            "tea",
            ["Shall I boil the kettle for tea?"],
            ["Green tea please, in my old mug.", "No kettle is left whole."],
        ),
        context(
            "copy", ["Where is it?"], ["Green tea please, in my old mug!", "The kettle leaks on the wooden counter."]
        ),
        context("shop", ["What did she buy?"], ["A kettle and two wooden spoons.", "Tea kettle boil."]),
        context(
            "trip",
            ["When do we leave?"],
            ["The train leaves from platform nine.", "Grandmother drinks tea at the station."],
        ),
        context("twin", ["Shall I boil the kettle for tea?", "Later."], ["Pour my tea into the flask afterwards."]),
    ]


def test_the_guards_by_hand():
    found, retrieved = lexical.negatives(small(), n=3, randoms=0)
    tea = found[0]
    # Not a positive again (copy p0), nothing that only repeats the context (shop p1), nothing of a context that shares
    # its utterance (twin); one a source context: copy p1, shop p0 and trip p1 are left.
    assert set(tea.adversarials) == {
        "The kettle leaks on the wooden counter.",
        "A kettle and two wooden spoons.",
        "Grandmother drinks tea at the station.",
    }
    rows = retrieved[retrieved["context_id"] == "own/tea"]
    assert list(rows["rank"]) == [1, 2, 3] and (rows["score"].diff().dropna() <= 0).all()
    assert set(rows["source_id"]) == {"own/copy/p1", "own/shop/p0", "own/trip/p1"}
    assert list(rows["pair_id"]) == ["own/tea/a0", "own/tea/a1", "own/tea/a2"]
    assert set(rows["shared"]) == {"kettle", "tea"} and set(rows["n_shared"]) == {1}
    assert [c.id for c in found] == [c.id for c in small()] and found[0].positives == small()[0].positives
    assert found[1].adversarials == ()  # "Where is it?" has no content word


def test_max_share_lets_mere_repetition_in():
    found, _ = lexical.negatives(small(), n=3, randoms=0, max_share=1)
    assert "Tea kettle boil." in found[0].adversarials


@pytest.mark.parametrize("method", ["bm25", "tfidf"])
def test_negatives_of_the_embedded_corpus(method):
    contexts = load("mini", "train")
    found, retrieved = lexical.negatives(contexts, method=method, seed=1)
    positives = {c.context_id: c.positives for c in contexts}
    plain = {c.context_id: {re.sub(r"[\W_]", "", t.lower()) for t in c.positives + c.turns} for c in contexts}
    for c in found:
        negatives = c.adversarials + c.randoms
        assert len(set(negatives)) == len(negatives) and len(c.randoms) == 5
        assert not {re.sub(r"[\W_]", "", t.lower()) for t in negatives} & plain[c.context_id]
    for row in retrieved.itertuples():
        source, number = row.source_id.rsplit("/p", 1)
        assert source != row.context_id
        text = positives[source][int(number)]
        own = next(c for c in found if c.context_id == row.context_id)
        assert own.adversarials[row.rank - 1] == text
        shared = set(retrieval.content_words(text)) & set(retrieval.content_words(" ".join(own.turns)))
        assert row.shared.split() == sorted(shared) and row.n_shared == len(shared) > 0
        assert 2 * len(shared) <= len(set(retrieval.content_words(text)))
    assert (
        retrieved.groupby("context_id")["source_id"].apply(lambda ids: ids.str.rsplit("/", n=1).str[0].is_unique).all()
    )


def test_a_run_repeats_itself_and_blocks_do_not_matter(monkeypatch):
    contexts = load("mini", "train")
    first = lexical.negatives(contexts, seed=3)
    monkeypatch.setattr(lexical, "BLOCK", 7)
    again = lexical.negatives(contexts, seed=3)
    assert first[0] == again[0]
    pd.testing.assert_frame_equal(first[1], again[1])
    other = lexical.negatives(contexts, seed=4)[0]
    assert [c.adversarials for c in other] == [c.adversarials for c in first[0]]
    assert [c.randoms for c in other] != [c.randoms for c in first[0]]


def test_the_search_goes_deeper_where_the_first_candidates_fail(monkeypatch):
    whole = lexical.negatives(load("mini", "train"), randoms=0)[0]
    monkeypatch.setattr(lexical, "DEPTH", 1)
    assert lexical.negatives(load("mini", "train"), randoms=0)[0] == whole


def test_contexts_of_one_dialogue():
    assert dialogue(context("1", ["I have two cats at home now.", "Yes."], [], facts="I like cats.")) & dialogue(
        context("2", ["No.", "i have two cats at home , now"], [])
    )
    assert dialogue(context("1", ["Yes."], [], facts="I like cats.")) & dialogue(
        context("2", ["No."], [], facts="I like cats.")
    )
    assert dialogue(context("valid/7/3", ["Yes."], [])) & dialogue(context("valid/7/9", ["No."], []))
    assert not dialogue(context("1", ["Yes."], [])) & dialogue(context("2", ["Yes."], []))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: (c + [context("x", ["a"], ["b"], split="test")], {}), "2 splits"),
        (lambda c: ([], {}), "no context at all"),
        (lambda c: (c, {"n": 0}), "n is 0"),
        (lambda c: (c, {"max_share": 0}), r"shares in \(0, 1\]"),
        (lambda c: (c, {"randoms": 20}), "responses of other dialogues for own/tea, 20 are needed"),
        (lambda c: (c, {"pool": [context("x", ["a"], [])]}), "nothing to retrieve"),
    ],
)
def test_what_cannot_be_done_is_refused(change, message):
    contexts, options = change(small())
    with pytest.raises(DreError, match=message):
        lexical.negatives(contexts, **({"randoms": 0} | options))


@pytest.mark.parametrize("name", ["convai2-valid", "topicalchat-valid_freq"])
def test_public_contexts_get_negatives_of_other_dialogues(data_home, name):
    pool = public(name)[:1500]
    found, retrieved = lexical.negatives(pool)
    of = {c.context_id: c for c in pool}
    rows = retrieved.sample(500, random_state=0)
    for one, other in zip(rows["context_id"], rows["source_id"].str.rsplit("/", n=1).str[0]):
        assert not dialogue(of[one]) & dialogue(of[other])
    assert Counter(len(c.adversarials) for c in found)[5] > 0.95 * len(found)


def judged(rng, n, share, hit, error):
    """Contexts with 5 responses, a share of which fits, seen through a judge that errs."""
    fits = rng.random((n, 5)) < share
    accepted = np.where(fits, rng.random((n, 5)) < hit, rng.random((n, 5)) < error)
    ids = np.repeat([f"c{i}" for i in range(n)], 5)
    return pd.DataFrame({"context_id": ids, "accepted": accepted.ravel().astype(float)})


def test_rogan_gladen_by_hand():
    retrieved = pd.DataFrame({"context_id": list("aabb"), "accepted": [1.0, 1, 0, 0]})
    known = pd.DataFrame(
        {
            "context_id": ["c"] * 5 + ["d"] * 5,
            "kind": list("pprra") + list("pprra"),
            "accepted": [1.0, 1, 0, 1, 0, 1, 0, 0, 0, 0],
        }
    )
    table = false_negatives.rates(retrieved, known, resamples=50).set_index("errors_on")
    # t = 2/4, s = 3/4, v = 0/2 on adversarials and 1/4 on randoms
    assert table.loc["adversarial", "false_negatives"] == pytest.approx(100 * 0.5 / 0.75)
    assert table.loc["random", "false_negatives"] == pytest.approx(100 * 0.25 / 0.5)
    assert (table["n"] == 4).all() and (table["accepted"] == 50).all()


def test_rogan_gladen_finds_a_known_share_and_its_interval_covers():
    covered = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        known = pd.concat(
            judged(rng, 150, share, 0.8, 0.3).assign(kind=kind) for kind, share in (("p", 1), ("a", 0), ("r", 0))
        )
        row = false_negatives.rates(judged(rng, 150, 0.2, 0.8, 0.3), known, 200, seed).iloc[0]
        covered += row["false_negatives_low"] <= 20 <= row["false_negatives_high"]
    assert covered >= 16


def test_a_judge_that_cannot_tell_gives_no_rate():
    retrieved = pd.DataFrame({"context_id": ["a", "b"], "accepted": [1.0, 0]})
    known = pd.DataFrame(
        {"context_id": list("ccdd") * 2, "kind": list("parparpa"), "accepted": [0.0, 1, 1] * 2 + [0, 1]}
    )
    table = false_negatives.rates(retrieved, known, resamples=20)
    assert table["false_negatives"].isna().all()
    said = false_negatives.reading(table.assign(set="A set", judge="a coin"))
    assert "50.0 % of 2 retrieved" in said and said.count("not to be told") == 2
    with pytest.raises(DreError, match="known ones of all three kinds"):
        false_negatives.rates(retrieved, known[known["kind"] != "r"])


def test_recorded_scores_tell_own_responses_from_retrieved_ones():
    assert false_negatives._kind("dailydialog++-dev/7", "dailydialog++-dev/7p3") == "p"
    assert false_negatives._kind("dailydialog++-dev/7", "dailydialog++-dev/7r0") == "r"
    assert false_negatives._kind("dailydialog++-dev/7", "dailydialog++-positives/71p3") == "retrieved"
    assert false_negatives._kind("dailydialog++-dev/7", "dailydialog++-dev/71p3") == "retrieved"
    assert false_negatives._kind("dailydialog++-dev/7", "generic-12") == "generic"


def test_the_recorded_judge_gives_a_rate(data_home):
    from dre.data import recorded

    table = false_negatives.by_judge(recorded.training_scores(), resamples=200)
    assert list(table["n"]) == [250, 250]
    assert (table["fitting_accepted"] > table["failing_accepted"]).all()
    assert table["false_negatives"].between(0, 100).all()


def test_an_slm_is_asked_about_every_retrieved_response():
    class Longer:
        """Accepts what has at least five words: a real rule, if a poor one."""

        def score(self, table):
            return pd.DataFrame({"pair_id": table["pair_id"], "score_slm": table["response"].str.split().str.len()})

    contexts = load("mini", "train")
    found, retrieved = lexical.negatives(contexts)
    table = false_negatives.by_slm(found, Longer(), 5, contexts, resamples=50)
    share = np.mean([len(text.split()) >= 5 for c in found for text in c.adversarials])
    assert table["accepted"].iloc[0] == pytest.approx(100 * share) and table["n"].iloc[0] == len(retrieved)


def test_random_negatives_depend_on_nothing_but_seed_id_and_pool():
    contexts = load("mini", "train")
    shuffled = random.Random(0).sample(contexts, len(contexts))
    one, other = (lexical.negatives(order, pool=contexts)[0] for order in (contexts, shuffled))
    assert {c.id: c.randoms for c in one} == {c.id: c.randoms for c in other}
