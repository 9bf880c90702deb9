"""Ctrl-C that lets the current segment finish, so that no charged result is lost."""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interruptible() -> Generator[Callable[[], bool]]:
    """Yield a function that says whether Ctrl-C was pressed; a second Ctrl-C interrupts at once."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield pressed.is_set
        return
    usual = signal.getsignal(signal.SIGINT)

    def press(*_: Any) -> None:
        pressed.set()
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, press)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, usual)
