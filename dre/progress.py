"""How far a long computation is: a bar in a terminal, elsewhere a line every half minute."""

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from tqdm import tqdm

SECONDS_BETWEEN_LINES = 30  # where there is no terminal for a bar


class Progress(AbstractContextManager):
    """How far a computation is, on standard error; a context manager.

    Parameters
    ----------
    total : int
        How many things there are to do.
    noun : str
        What they are called, such as ``pairs``.
    n_done : int
        How many of them were done by an earlier run.
    is_silent : bool
        Whether nothing is printed.
    name : str
        What is computed; it stands before the bar, and before each line.
    """

    def __init__(
        self, total: int, noun: str, n_done: int = 0, is_silent: bool = False, name: str = ""
    ):
        self.n_done = n_done
        # None: without a terminal there is no bar.
        is_off = True if is_silent else None
        self._bar = tqdm(
            desc=name or None, total=total, initial=n_done, unit=f" {noun}", disable=is_off
        )
        self._is_silent = is_silent
        self._name = name
        self._noun = noun
        self._total = total
        self._to_do = total - n_done
        self._start = self._last_line = time.monotonic()

    def __exit__(self, *error: object) -> None:
        """Close the bar."""
        self.close()

    def close(self) -> None:
        """Close the bar."""
        self._bar.close()

    def update(self, n: int = 1, line: Callable[[], str] | None = None, note: str = "") -> None:
        """Note that so many more are done.

        Parameters
        ----------
        n : how many.
        line : returns what a line says, if one is due; by default how many are done.
        note : what stands beside the bar.
        """
        self.n_done += n
        if note:
            self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(n)
        if self._is_due():
            text = line() if line else f"{self.n_done:,} of {self._total:,} {self._noun}"
            left = self._total - self.n_done
            seconds = (time.monotonic() - self._start) * left / (self._to_do - left)
            time_left = f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
            self.say(f"{text}, about {time_left} left")

    def say_if_due(self, text: str) -> None:
        """Print a line if the last one is long ago."""
        if self._is_due():
            self.say(text)

    def say(self, text: str) -> None:
        """Print a line."""
        if self._is_silent:
            return
        self._last_line = time.monotonic()
        tqdm.write(f"{self._name}: {text}" if self._name else text, file=sys.stderr)
        sys.stderr.flush()

    def _is_due(self):
        if self._is_silent or not self._bar.disable:
            return False
        return time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES
