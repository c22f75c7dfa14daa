"""The progress bar of a run: rate, spend, failures."""

from tqdm import tqdm


class Bar:
    """Show a run's `Outcome` as it grows.

    Parameters
    ----------
    total : int
    priced : bool
        False: no price is known, so no spend is shown.
    disable : bool or None
        None: shown on a terminal only.
    desc : str or None
        What is asked for.
    """

    def __init__(self, total, priced=True, disable=None, desc=None):
        self._priced = priced
        self._bar = tqdm(total=total, unit="call", disable=disable, smoothing=0.1, desc=desc)

    def __call__(self, outcome):
        """Bring the bar up to date."""
        spent = f"${outcome.spent:.4f}, " if self._priced else ""
        shown = f"{spent}{outcome.failed} no score, {len(outcome.errors)} failed"
        self._bar.set_postfix_str(shown + (f", {outcome.retries} retries" if outcome.retries else ""), refresh=False)
        self._bar.update(len(outcome.judgements) + len(outcome.errors) - self._bar.n)

    def close(self):
        """Leave the last state on the screen."""
        self._bar.close()
