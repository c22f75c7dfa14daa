"""How far a long computation is: a bar in a terminal, elsewhere a line every half minute."""

import sys
import time
from collections.abc import Callable
from typing import Self

from tqdm import tqdm

SECONDS_BETWEEN_LINES = 30  # where there is no terminal for a bar
_LONGEST_IN_SECONDS = 90


class Progress:
    """How far a computation is, on standard error; a context manager.

    Parameters
    ----------
    total : int
        How many things there are to do.
    noun : str
        What they are called, such as ``pairs``.
    n_before : int
        How many of them were done by an earlier run.
    is_silent : bool
        Whether nothing is printed.
    name : str
        What is computed; it stands before the bar, and before each line.
    """

    def __init__(
        self, total: int, noun: str, n_before: int = 0, is_silent: bool = False, name: str = ""
    ):
        self.total = total
        self.n_done = n_before
        self.has_bar = sys.stderr.isatty() and not is_silent
        self._noun = noun
        self._n_before = n_before
        self._is_silent = is_silent
        self._name = name
        self._bar = tqdm(
            desc=name or None,
            total=total,
            initial=n_before,
            unit=f" {noun}",
            disable=not self.has_bar,
        )
        self._start = time.monotonic()
        self._last_line = self._start

    def __enter__(self) -> Self:
        """Begin."""
        return self

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
            text = f"{self.n_done:,} of {self.total:,} {self._noun}" if line is None else line()
            self.say(f"{text}, {self._time_left()} left")

    def say_if_due(self, text: str) -> None:
        """Print a line if the last one is long ago."""
        if self._is_due():
            self.say(text)

    def say(self, text: str) -> None:
        """Print a line."""
        if self._is_silent:
            return
        self._last_line = time.monotonic()
        name = f"{self._name}: " if self._name else ""
        tqdm.write(f"{name}{text}", file=sys.stderr)
        sys.stderr.flush()

    def _is_due(self):
        if self._is_silent or self.has_bar:
            return False
        return time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES

    def _time_left(self):
        """Return in words how long the rest will take, by the speed so far."""
        seconds_each = (time.monotonic() - self._start) / (self.n_done - self._n_before)
        seconds = seconds_each * (self.total - self.n_done)
        if seconds < _LONGEST_IN_SECONDS:
            return f"about {seconds:.0f} s"
        return f"about {seconds / 60:.0f} min"
