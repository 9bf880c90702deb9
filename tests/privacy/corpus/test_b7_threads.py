"""B7: many threads ask of one reservation at once; one release is paid for, and one is made."""

import threading

import numpy as np

import dpmcmc as dp
from dpmcmc.errors import BudgetExceeded

THREADS = 24
SUM = dp.mechanisms.Sum(1.0, 200.0)


def mean(oracle):
    return oracle.sum(SUM, lambda record: record["x"]).value


def test_a_reservation_pays_for_one_release_whoever_asks() -> None:
    records = {"x": np.zeros((100, 3), np.float32)}
    data = dp.PrivateData(records, bounds={"x": (-1, 1)}, budget=dp.Budget(1.0, 1e-6))
    price = data.price(mean)
    data.run(mean)  # compiled, so that the threads are at the check together
    results, refused, gate = [], [], threading.Barrier(THREADS)

    def ask(paid) -> None:
        gate.wait()
        try:
            results.append(np.asarray(paid.run(mean)))
        except BudgetExceeded:
            refused.append(True)

    with data.reserve(price) as paid:
        threads = [threading.Thread(target=ask, args=(paid,)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(results) == 1
    assert len(refused) == THREADS - 1
    assert data.account.spent == price + price
