"""The line of a notebook that runs: rewritten in place on a terminal, a few short lines in a log."""

import json
import shutil
import sys
import threading
import time

CLEAR = "\r\x1b[K"
EVERY = {True: 0.5, False: 0.2}  # seconds between two looks at the file, on a terminal and in a log
QUIET = 20.0  # seconds a log waits at least before another line: short loops say nothing


class Line:
    """Shows what a notebook is doing while it runs; a context manager.

    Parameters
    ----------
    head, what : str
        What stands before, such as ``[2/3] 02_slm_training``, and why it runs.
    path : Path
        The file that `dre.pipeline.progress` keeps its state in.
    out : text stream, optional
        By default stdout.
    quiet : float
        Seconds a log waits at least before another line.
    """

    def __init__(self, head, what, path, out=None, quiet=QUIET):
        self.head, self.what, self.path, self.quiet = head, what, path, quiet
        self.out = sys.stdout if out is None else out
        self.terminal = self.out.isatty()
        self.end = "stopped"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._start = self._said = time.monotonic()
        self._item = None
        self._broken = False

    def __enter__(self):
        self.path.unlink(missing_ok=True)
        self._write(self._running())
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        self._thread.join()
        self.path.unlink(missing_ok=True)
        if self.terminal:
            self._write(f"{CLEAR}{self._running()}{self.end}\n")
        else:
            self._write(f"{self._running() if self._broken else ''}{self.end}\n")

    def done(self):
        """Say that the notebook ended well, and after how long."""
        self.end = f"done in {time.monotonic() - self._start:.1f} s"

    def _running(self):
        return f"{self.head}{self.what}: running ... "

    def _watch(self):
        while not self._stop.wait(EVERY[self.terminal]):
            state = _read(self.path)
            if self.terminal:
                shown = said(state, time.time()) if state else clock(time.monotonic() - self._start)
                width = shutil.get_terminal_size().columns - 1  # a line that wraps cannot be rewritten
                self._write(CLEAR + f"{self.head}... {shown}"[:width])
            elif state:
                self._log(state)

    def _log(self, state):
        item = state["start"], state["done"]
        if state["done"] and item != self._item and time.monotonic() - self._said >= self.quiet:
            self._write(f"{'' if self._broken else chr(10)}    {said(state, time.time())}\n")
            self._item, self._said, self._broken = item, time.monotonic(), True

    def _write(self, text):
        self.out.write(text)
        self.out.flush()


def said(state, now):
    """Return a state in words: ``trainings 4/11, 6 min left``, or how long the first item has taken so far.

    Parameters
    ----------
    state : dict
        ``desc``; ``done`` and ``total`` (or None) items; ``start`` and ``now``, times (s) of the beginning and of the
        last finished item.
    now : float
        The time, in the same clock.
    """
    desc, done, total = state["desc"], state["done"], state["total"]
    if total is None:
        return f"{desc} {done}"
    text = f"{desc} {done}/{total}"
    if not done:
        return f"{text}, {clock(now - state['start'])}"
    a_piece = (state["now"] - state["start"]) / done
    left = a_piece * (total - done) - (now - state["now"])
    return f"{text}, {_about(left)} left"


def _about(seconds):
    if seconds < 50:
        return "less than a minute"
    return f"{max(round(seconds / 60), 1)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def clock(seconds):
    """Return a duration as minutes and seconds: 75 s is ``1:15``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _read(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # none is under way
        return None
