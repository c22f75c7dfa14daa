"""What Algorithm 1 costs with every model whose price is known."""

from dre.augment.experience import experience
from dre.augment.forecast import COLUMNS, SAMPLE, dollars, every, forecast
from dre.augment.walk import Walk
from dre.judges import length, prices
from dre.judges.judge import Judge
from dre.judges.store import Store


def table(contexts, n=None, max_rounds=3, again="refine", seen=None):
    """Return what Algorithm 1 costs with every priced model, each checking its own responses.

    Parameters
    ----------
    contexts : sequence of dre.data.records.Context
        Up to 200 of them, evenly spaced, are measured.
    n : int, optional
        Contexts to write for; None: as many as are given.
    max_rounds, again
        See `dre.augment.generate`.
    seen : Experience, optional

    Returns
    -------
    pandas.DataFrame
        One row a model, cheapest first: ``model``, the columns of `Forecast` summed over prompts, and ``thinks``
        (whether the model is counted as one that thinks before it answers, and pays for that).
        Nothing is asked of anyone.
    """
    import pandas as pd

    contexts, seen = list(contexts), seen or experience()
    chosen = every(contexts, SAMPLE)
    factor = (len(contexts) if n is None else n) / len(chosen)
    rows, totals = [], {}
    with Store(":memory:") as store:
        for spec, price in prices.named().items():
            judge = Judge(spec, store=store)
            shape = (judge.provider.structured, length.thinks(judge.provider.model))
            if shape not in totals:  # what else a model is called does not change the count of tokens
                walk = Walk(chosen, judge, max_rounds=max_rounds, again=again)
                walk.go()
                total = forecast(walk, seen).total()
                totals[shape] = {name: total[name] * factor for name in COLUMNS}
            rows.append({"model": spec, **totals[shape], **dollars(totals[shape], price), "thinks": shape[1]})
    return pd.DataFrame(rows).sort_values("usd", ignore_index=True)
