"""Scores from log-probabilities, through the real SDKs."""

import math

import judge_servers as servers
import pytest
from judge_servers import Server, pairs

import dre.judges
from dre.errors import DreError
from dre.judges import likelihoods, prompts

each_provider = pytest.mark.parametrize("provider", ["openai", "ollama"])


def answer_with_logprobs(provider, tokens):
    """An answer in the provider's form; ``tokens``: a token and {candidate: probability} each."""
    logprobs = []
    for token, probabilities in tokens:
        candidates = []
        for candidate, probability in probabilities.items():
            candidates.append(
                {
                    "token": candidate,
                    "logprob": math.log(probability),
                    "bytes": [*candidate.encode()],
                }
            )
        [sampled] = [candidate for candidate in candidates if candidate["token"] == token]
        logprobs.append(sampled | {"top_logprobs": candidates})
    text = "".join(token for token, _ in tokens)
    answer = servers.REPLIES[provider](text)
    if provider == "openai":
        answer.body["choices"][0]["logprobs"] = {"content": logprobs, "refusal": None}
    else:
        answer.body["logprobs"] = logprobs
    return answer


def answer_without_logprobs(provider, text):
    return servers.REPLIES[provider](text)


def score(provider, server, prompt="quality_overall", store=":memory:", ask=True, **options):
    """The row of one pair."""
    judge = dre.judges.open(f"{provider}:m", store=store, base_url=server.url, **options)
    return judge.score(pairs(1), prompt, ask=ask).iloc[0]


def stored(tokens):
    """Tokens as above, as a store keeps them."""
    return [
        [token, {candidate: math.log(p) for candidate, p in probabilities.items()}]
        for token, probabilities in tokens
    ]


def rescored(prompt, tokens, structured=False):
    """The verdict that log-probabilities give, of ``tokens`` as above."""
    verdict = prompt.parse("".join(token for token, _ in tokens), structured=structured)
    return likelihoods.rescore(verdict, stored(tokens), prompt)


def load_own_prompt(tmp_path, header):
    path = tmp_path / "own.txt"
    body = "[user]\n{{notice}}\n{{context}}\n{{response}}\n"
    path.write_text(f"---\n{header}\n---\n{body}", encoding="utf-8")
    return prompts.load(path)


# Tokens that say the same add up, and others say nothing: 5 is off the scale.
CASES = {
    "one token": (
        "quality_overall",
        [("2", {"2": 0.3, " 2": 0.2, "3.": 0.1, "5": 0.1, "2/4": 0.1})],
        (2 * 0.5 + 3 * 0.1) / 0.6,
    ),
    "behind a label": (
        "quality_overall",
        [("Rating:", {"Rating:": 0.9, "4": 0.1}), (" 3", {" 3": 0.6, " 1": 0.2})],
        2.0 / 0.8,
    ),
    "a word": (
        "good_response",
        [("No", {"Yes": 0.2, " yes": 0.1, "No": 0.5, "NO": 0.1, "Not": 0.1})],
        0.3 / 0.9,
    ),
}


@each_provider
@pytest.mark.parametrize("case", CASES)
def test_the_candidates_for_the_token_that_says_the_verdict_make_the_score(provider, case):
    prompt, tokens, expected = CASES[case]
    with Server(lambda request: answer_with_logprobs(provider, tokens)) as server:
        row = score(provider, server, prompt, logprobs=True)
    assert row["score_llm"] == pytest.approx(expected)


def test_an_equal_number_before_the_rating_is_not_the_place_that_counts():
    prompt = prompts.load("analyse_rate_coherence")
    tokens = [
        ("In", {"In": 1.0}),
        (" 3", {" 3": 0.5, " 2": 0.25, " 1": 0.25}),
        (" turns nothing is said.\n", {" turns nothing is said.\n": 1.0}),
        ("Rating:", {"Rating:": 1.0}),
        (" 3", {" 3": 0.5, " 2": 0.5}),
    ]
    assert rescored(prompt, tokens).score_llm == pytest.approx(2.5)


def test_an_equal_influence_in_a_json_object_is_not_the_place_of_the_score(tmp_path):
    header = "kind: score\nscale: [0, 5]\ninfluence: [0, 1]\noutput: json"
    prompt = load_own_prompt(tmp_path, header)
    tokens = [
        ('{"influence": ', {'{"influence": ': 1.0}),
        ("1", {"1": 0.9, "0": 0.1}),
        (', "score":', {', "score":': 1.0}),
        (" ", {" ": 1.0}),
        ("1", {"1": 0.4, "2": 0.35, "3": 0.25}),
        ("}", {"}": 1.0}),
    ]
    verdict = rescored(prompt, tokens)
    assert verdict.score_llm == pytest.approx(0.4 * 1 + 0.35 * 2 + 0.25 * 3)
    assert verdict.s_inf == 1


@pytest.mark.parametrize(
    "fence", [["```", "json", "\n", "{\n"], ["```json\n{", "\n"], ["```\n{\n"]]
)
def test_a_code_fence_that_the_server_takes_from_the_text_alone_moves_no_place(tmp_path, fence):
    header = "kind: score\nscale: [0, 5]\noutput: json"
    prompt = load_own_prompt(tmp_path, header)
    # As llama.cpp's server answers where a schema goes with the request.
    rest = [" ", ' "', "score", '":', " ", "4", "\n", "}\n", "```"]
    of_score = {"4": 0.6, "3": 0.3, "5": 0.1}
    tokens = []
    for token in (*fence, *rest):
        tokens.append((token, of_score if token == "4" else {token: 0.9, "other": 0.1}))
    verdict = prompt.parse('{\n  "score": 4\n}', structured=True)
    rescored = likelihoods.rescore(verdict, stored(tokens), prompt)
    assert rescored.score_llm == pytest.approx(0.6 * 4 + 0.3 * 3 + 0.1 * 5)


def test_an_equal_word_before_the_answer_is_not_the_place_that_counts(tmp_path):
    prompt = load_own_prompt(tmp_path, "kind: label\nlabels: {Yes: Positive, No: Negative}")
    tokens = [
        ("No", {"No": 0.9, "Well": 0.1}),
        (", it asks.\n", {", it asks.\n": 1.0}),
        ("Answer:", {"Answer:": 1.0}),
        (" No", {" No": 0.55, " Yes": 0.45}),
    ]
    verdict = rescored(prompt, tokens)
    assert verdict.label == "Negative"
    assert verdict.score_llm == pytest.approx(0.45)


@pytest.mark.parametrize(
    "tokens",
    [
        [("3", {"3": 0.9}), (".", {".": 1.0}), ("5", {"5": 0.5})],
        [("Rat", {"Rat": 1.0}), ("ing: 3", {"ing: 3": 1.0})],
        [("3", {"3": 1.0})],
    ],
    ids=["a fraction", "a token with more than the number", "no alternative"],
)
def test_a_verdict_without_a_token_of_its_own_has_no_score(tokens):
    verdict = rescored(prompts.load("quality_overall"), tokens)
    assert verdict.status == "malformed"
    assert "says the verdict by itself" in verdict.reason


def test_tokens_that_spell_another_text_than_the_reply_give_no_score():
    prompt = prompts.load("quality_overall")
    top = [["Rating:", {"Rating:": 0.0}], [" 2", {" 2": -0.1, " 1": -3.0}]]
    assert likelihoods.rescore(prompt.parse("Rating: 3"), top, prompt).status == "malformed"


def test_a_number_in_the_reason_behind_a_rating_is_not_the_place_that_counts():
    prompt = prompts.load("analyse_rate_coherence")
    tokens = [("3", {"3": 0.5, "1": 0.5}), ("\nIt has ", {"\nIt has ": 1.0})]
    tokens += [("3", {"3": 0.9, "4": 0.1}), (" turns", {" turns": 1.0})]
    assert rescored(prompt, tokens).score_llm == pytest.approx(2.0)


# OpenAI writes -9999 where a token was out of the question, though it was drawn.
VERY_UNLIKELY = {
    "a number alone": ("quality_overall", {"2": -9999.0, "The": -0.1}, 2.0),
    "two numbers": ("quality_overall", {"2": -9999.0, "3": -math.inf}, 2.5),
    "a word": ("good_response", {"No": -9999.0, "The": -0.1}, 0.0),
}


@pytest.mark.parametrize("case", VERY_UNLIKELY)
def test_a_verdict_that_was_very_unlikely_is_one(case):
    name, logprobs, expected = VERY_UNLIKELY[case]
    prompt = prompts.load(name)
    reply = next(iter(logprobs))

    verdict = likelihoods.rescore(prompt.parse(reply), [[reply, logprobs]], prompt)

    assert verdict.score_llm == pytest.approx(expected)


@each_provider
def test_log_probabilities_are_asked_for_and_kept(provider, tmp_path):
    tokens = [("3", {"2": 0.5, "3": 0.2, "4": 0.1, "0": 0.05})]
    store = tmp_path / "s.sqlite"
    with Server(lambda request: answer_with_logprobs(provider, tokens)) as server:
        score(provider, server, store=store, logprobs=3)
        kept = {"store": store, "ask": False}
        of_two = score(provider, server, **kept, logprobs=2)
        other_setting = score(provider, server, **kept, logprobs=2, top_p=0.5)

    assert of_two["score_llm"] == pytest.approx((2 * 0.5 + 3 * 0.2) / 0.7)
    assert other_setting["status"] == "missing"
    body = server.requests[0].body
    assert body["logprobs"] is True
    assert body["top_logprobs"] == 20
    assert "logprobs" not in body.get("options", {})


@each_provider
def test_a_reply_with_a_fraction_has_no_score(provider):
    tokens = [("3", {"3": 0.5, "2": 0.5}), (".", {".": 1.0}), ("5", {"5": 1.0})]
    with Server(lambda request: answer_with_logprobs(provider, tokens)) as server:
        row = score(provider, server, logprobs=True)
    assert row["status"] == "malformed"
    assert math.isnan(row["score_llm"])
    assert "a whole number" in row["reason"]


@each_provider
def test_a_server_without_log_probabilities_is_found_out_before_all_are_asked(provider):
    with Server(lambda request: answer_without_logprobs(provider, "1")) as server:
        options = {"store": ":memory:", "base_url": server.url, "concurrency": 1}
        judge = dre.judges.open(f"{provider}:m", logprobs=True, **options)
        with pytest.raises(DreError, match="start the server so that it gives log-probabilities"):
            judge.score(pairs(12), "quality_overall")
        assert len(server.requests) == 10


def test_a_refusal_as_first_reply_does_not_end_the_run():
    def reply(request):
        if len(server.requests) == 1:
            return servers.openai(None, refusal="I cannot.")
        return answer_with_logprobs("openai", [("3", {"3": 0.5, "1": 0.5})])

    with Server(reply) as server:
        options = {"store": ":memory:", "base_url": server.url, "concurrency": 1}
        judge = dre.judges.open("openai:m", logprobs=True, **options)
        table = judge.score(pairs(3), "quality_overall")
    assert sorted(table["status"]) == ["ok", "ok", "refused"]
    assert table["score_llm"].dropna().tolist() == pytest.approx([2.0, 2.0])


@pytest.mark.parametrize(
    "header, fault",
    [
        ("kind: score\nscale: [0, 10]", "prompt own has no score by log.* within 0-9"),
        ("kind: score\nscale: [-1, 1]", "prompt own has no score by log.* within 0-9"),
        ("kind: generate", "prompt own has no score by log"),
    ],
)
def test_a_prompt_that_no_single_token_can_answer_is_refused_before_any_call(
    tmp_path, header, fault
):
    prompt = load_own_prompt(tmp_path, header)
    with Server(lambda request: answer_without_logprobs("openai", "1")) as server:
        judge = dre.judges.open("openai:m", logprobs=True, store=":memory:", base_url=server.url)
        for ask in (judge.score, judge.estimate, judge.requests):
            with pytest.raises(DreError, match=fault):
                ask(pairs(2), prompt)
    assert server.requests == []
