"""How far a long computation is: a bar in a terminal, elsewhere a line every half minute."""

import sys
import time
from types import TracebackType
from typing import Self

from tqdm import tqdm

SECONDS_BETWEEN_LINES = 30  # where there is no terminal for a bar


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
    """

    def __init__(self, total: int, noun: str, n_before: int = 0, is_silent: bool = False):
        self._total = total
        self._noun = noun
        self._n_before = n_before
        self._n_done = n_before
        is_terminal = sys.stderr.isatty()
        self._prints_lines = not (is_silent or is_terminal)
        has_bar = is_terminal and not is_silent
        self._bar = tqdm(total=total, initial=n_before, unit=f" {noun}", disable=not has_bar)
        self._start = time.monotonic()
        self._last_line = self._start

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the bar."""
        self._bar.close()

    def update(self, n: int = 1) -> None:
        """Note that so many more are done."""
        self._n_done += n
        self._bar.update(n)
        now = time.monotonic()
        if not self._prints_lines or now - self._last_line < SECONDS_BETWEEN_LINES:
            return
        self._last_line = now
        seconds_each = (now - self._start) / (self._n_done - self._n_before)
        minutes_left = seconds_each * (self._total - self._n_done) / 60
        print(
            f"{self._n_done:,} of {self._total:,} {self._noun} scored, about "
            f"{minutes_left:.0f} minutes left",
            file=sys.stderr,
            flush=True,
        )
