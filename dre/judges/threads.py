"""Work in threads for which the interpreter does not wait when it ends, unlike those of a pool."""

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any


def start(task: Callable[[], Any]) -> concurrent.futures.Future:
    """Begin a task in a thread of its own; return the future of what it returns or raises."""
    future = concurrent.futures.Future()
    future.set_running_or_notify_cancel()

    def work():
        try:
            future.set_result(task())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future
