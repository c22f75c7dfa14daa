"""What a judge takes for 1,000 responses, as far as prices and recordings tell."""

import numpy as np
import pandas as pd

from dre.correlation import cost
from dre.judges import prices

#: judge -> row and column of `dre.correlation.cost.of_judges` that stand for what it was asked, and for its price
PRICED_AS = {
    "Claude-3-haiku": ("LLM-only, Ex-DRE, SLIDE", "Claude-3-haiku"),
    "GPT-3.5-0613 G-Eval": ("G-EVAL", "GPT-3.5-turbo"),
    "GPT-3.5-0613 analyse-rate": ("LLM-Chiang", "GPT-3.5-turbo"),
    "GPT-3.5-0613 rate-explain": ("LLM-Chiang", "GPT-3.5-turbo"),
}
#: judges whose version was not recorded -> provider, and what they were asked
VERSION_UNKNOWN = {"claude-2026-11": ("anthropic", "LLM-only, Ex-DRE, SLIDE")}
NO_PRICE = "an open model without a list price; the GPU time it took was not recorded"
NO_SECONDS = "recordings tell no seconds"
ASSUMED = (
    "Dollars: tokens of our prompts at four bytes each and the dated price table. Others' prompts are taken to be as "
    "long as ours, and GPT-3.5-0613 to cost what gpt-3.5-turbo does. The SLM costs no dollars."
)


def dollars(items, said, asked_live):
    """Return what each judge takes for 1,000 responses of a domain.

    Parameters
    ----------
    items : DataFrame
        As `dre.correlation.cost.of_judges` takes them.
    said : list of Opinion
    asked_live : DataFrame
        Of `dre.correlation.cost.as_asked` for this domain: what live judges really took.

    Returns
    -------
    DataFrame
        ``judge, dollars, dollars_low, dollars_high, seconds, why``. Where only the provider is known, its cheapest and
        dearest listed model bound the dollars; what is not known is NaN, and ``why`` says why.
    """
    counted = cost.of_judges(items).set_index("row")
    live = asked_live.drop_duplicates("judge").set_index("judge")
    rows = [_dollars(each.name, counted, live) for each in said]
    return pd.DataFrame(rows, columns=["judge", "dollars", "dollars_low", "dollars_high", "seconds", "why"])


def _dollars(judge, counted, live):
    line = {"judge": judge, "why": ""}
    if judge in live.index:
        one = live.loc[judge]
        line |= {"dollars": one["dollars"], "seconds": one["seconds"]}
        return line | ({"why": "no price in the table"} if np.isnan(one["dollars"]) else {})
    if judge in PRICED_AS:
        return line | {"dollars": counted.loc[PRICED_AS[judge]], "why": NO_SECONDS}
    if judge in VERSION_UNKNOWN:
        provider, row = VERSION_UNKNOWN[judge]
        tokens = counted.loc[row, ["input_tokens", "output_tokens"]]
        found = [price.cost(*tokens) for name, price in prices.named().items() if name.startswith(f"{provider}:")]
        bounds = f"${min(found):.2f} to ${max(found):.2f} if all are asked, by what {provider} lists"
        return line | {
            "dollars_low": min(found),
            "dollars_high": max(found),
            "why": f"the version was not recorded: {bounds}; {NO_SECONDS}",
        }
    return line | {"why": NO_PRICE}
