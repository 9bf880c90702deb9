"""Work that is done in another thread, a little ahead of who needs it."""

from collections.abc import Generator, Iterator
from queue import SimpleQueue
from threading import Event, Semaphore, Thread
from typing import TypeVar

Item = TypeVar("Item")

AHEAD = 2
"""How many chunks wait at most for who reads them."""


def read_ahead(items: Iterator[Item], ahead: int = AHEAD) -> Generator[Item]:
    """Return what an iterator gives, made in another thread while the caller works with the items before.

    The thread ends with the items, with an error, which is raised here, or when the caller stops: when this generator
    is closed, the thread has ended and so has the iterator, if it is a generator.
    """
    ready: SimpleQueue[tuple[Item] | BaseException | None] = SimpleQueue()
    room, stopped = Semaphore(ahead), Event()

    def work() -> None:
        ending: BaseException | None = None
        try:
            while room.acquire() and not stopped.is_set():
                ready.put((next(items),))
        except StopIteration:
            pass
        except BaseException as error:  # it is raised where the items are used
            ending = error
        if isinstance(items, Generator):
            items.close()
        ready.put(ending)

    worker = Thread(target=work, name="dpmcmc read ahead", daemon=True)
    worker.start()
    try:
        while isinstance(got := ready.get(), tuple):
            room.release()
            yield got[0]
    finally:
        stopped.set()
        room.release()
        worker.join()
    if got is not None:
        raise got
