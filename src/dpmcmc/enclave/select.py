"""Repeat and select: a secret number of runs, of which only the best leaves this file. The proof is in select.md."""

import math
import random
import secrets
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from dpmcmc.accounting.event import Event, counts
from dpmcmc.accounting.selection import Selected, probabilities
from dpmcmc.enclave.core.session import Session
from dpmcmc.errors import SelectionFailed


class Attempt(NamedTuple):
    """A candidate: what one run of it releases at most, and the run, from what executes it to (score, result)."""

    event: Event
    run: Callable[[Session], tuple[float, Any]]


class Best(NamedTuple):
    """The best of all runs: the place of its candidate, its score, its result, and the price of the selection."""

    candidate: int
    score: float
    result: Any
    event: Event


def best_of(
    attempts: Sequence[Attempt], price: Event, begin: Callable[[Event, int | None], Session], insecure_seed: int | None
) -> Best:
    """Run candidates drawn uniformly, as often as the price says by chance, and return the best run alone.

    A run that raises has lost, without a word: what it would say may follow from releases that are not shown. Warnings
    are those of the best run.

    Args:
        attempts: the candidates.
        price: what `repeat_and_select` made of their events.
        begin: makes what executes the programs of one run, given what it may release and a seed for tests.
        insecure_seed: fixes how many runs there are, of which candidates, and their noise, for tests.
    """
    (chosen,) = (part for part in counts(price) if isinstance(part, Selected))
    dice = secrets.SystemRandom() if insecure_seed is None else random.Random(insecure_seed)  # noqa: S311  # for tests
    best, said = None, []
    for _ in range(number_of_runs(chosen, dice)):
        index = dice.randrange(len(attempts))
        paid = begin(attempts[index].event, None if insecure_seed is None else dice.getrandbits(31))
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            found = _outcome(attempts[index], paid)
        if found is not None and (best is None or found[0] > best.score):
            best, said = Best(index, *found, price), heard
    if best is None:
        raise SelectionFailed(
            "every run failed; the reasons are withheld, since they may depend on releases that are not "
            "shown; the charge stands. Run the candidates one by one on synthetic records to find out"
        )
    for one in said:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return best


def number_of_runs(chosen: Selected, dice: random.Random) -> int:
    """Draw the number of runs: the first k at which P(K <= k) is above a uniform number of 128 bits."""
    uniform = Fraction(dice.getrandbits(128), 2**128)
    below, k = 0.0, 0
    for k, chance in enumerate(probabilities(chosen.halting, chosen.shape), start=1):  # noqa: B007
        below += chance
        if below > uniform:
            break
    return k


def _outcome(attempt: Attempt, paid: Session) -> tuple[float, Any] | None:
    """Return the score and the result of a run; nothing if it fails, or has no score."""
    try:
        score, result = attempt.run(paid)
        score = float(score)
    except Exception:  # whatever it is, it is not shown
        return None
    finally:
        paid.close()
    return None if math.isnan(score) else (score, result)
