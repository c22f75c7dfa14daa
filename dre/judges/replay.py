"""The judge that only repeats a recording: ``recorded:<name>``."""

from dre.errors import DreError
from dre.judges import pairs as pair_rows
from dre.judges import prompts, recorded, table
from dre.judges.store import Judgement


class Recorded:
    """Answers from a recording; asks nothing of anyone.

    Parameters
    ----------
    name : str
        A recording of this project, or the path of a folder with ``manifest.json`` and ``judgements.jsonl``.
    """

    def __init__(self, name):
        self.spec = f"recorded:{name}"
        self.recording = recorded.load(name)
        self.manifest = self.recording.manifest

    def __repr__(self):
        return f"Recorded({self.recording.name!r})"

    def score(self, pairs, prompt="llm_only", missing="refuse"):
        """Return the recorded judgements of pairs.

        Parameters
        ----------
        pairs : pandas.DataFrame or list of mapping
            ``pair_id``; with ``context`` and ``response``, replies are read as they would be live.
        prompt : str
        missing : {"refuse", "keep"}
            What is not recorded is an error, or a row of status ``missing``.

        Returns
        -------
        pandas.DataFrame
            See `dre.judges.table.build`.
        """
        if missing not in ("refuse", "keep"):
            raise DreError(f"missing is {missing!r}, expected refuse or keep")
        name = prompt.name if isinstance(prompt, prompts.Prompt) else prompt
        rows = pair_rows.rows(pairs)
        repeats = int(self.manifest.get("repeats", 1))
        known = self._known(name) if missing == "keep" else None
        asked = [row for row in rows if known is None or row["pair_id"] in known]
        found = self._samples(asked, name, repeats)
        samples = [found.get(row["pair_id"], []) for row in rows]
        absent = [Judgement(status="missing", reason=f"not in {self.spec}")] * len(rows)
        mode = self.manifest.get("mode") or ("mean" if repeats > 1 else "single")
        return table.build([row["pair_id"] for row in rows], samples, absent, mode, self.recording.readings[name])

    def _known(self, prompt):
        rows = self.recording.table
        return set(rows.loc[rows["prompt"] == prompt, "pair_id"])

    def _samples(self, rows, prompt, repeats):
        import pandas as pd

        replayed = self.recording.replay(pd.DataFrame(rows, columns=_columns(rows)), prompt, repeats)
        names = ("pair_id", "status", "reason", "score_llm", "s_inf", "label", "responses", "logprobs")
        samples = {}
        for values in zip(*(replayed[name].astype(object).tolist() for name in names)):
            one = dict(zip(names, (None if value != value else value for value in values)))
            samples.setdefault(one["pair_id"], []).append(Judgement(**one))
        return samples


def _columns(rows):
    names = {"pair_id": None}
    for row in rows:
        names |= dict.fromkeys(row)
    return list(names)
