"""The gate against a test double that hands over any int32 entries for a record (`adversary.py` says how it is wired).

The attack: the floating-point code is no longer attacked but replaced, with one that hands over INT_MIN, the bound,
the bound plus one, squares that wrap to zero, and other answers when it is asked twice.

What must happen: what a gate adds for one record has entries and norm within the bound, and the sum is that of what it
adds, exactly, in any order. What is beyond the bound may be shortened or left out, never added as it is.

Here the checks stand with the double alone, and with a gate in NumPy that is known to be right and two that are known
to be wrong: the checks accept the one and refuse the others. `check_gate` takes the enclave's own.
"""

import jax
import numpy as np
import pytest
from adversary import INT_MAX, INT_MIN, KINDS, adversary, kind_of, unsteady

BOUND, D = 2**20, 7


def records_of_every_kind(count=200):
    """Records that are no numbers to anybody, enough of them that every kind of answer occurs several times."""
    return np.random.default_rng(0).integers(0, 2**32, (count, 3), np.uint32).view(np.float32)


def check_gate(gate, records, shape=(D,), bound=BOUND):
    """Hold a gate to its claim: ``gate(entries, occupied, bound)`` returns the exact sum over the records, as integers.

    `entries` are int32 with one row a record, `occupied` says which places hold one.
    """
    answers = np.asarray(jax.vmap(lambda record: adversary(record, shape, bound))(records))
    places = len(records)
    alone = []
    for place in range(places):
        occupied = np.arange(places) == place
        alone.append([int(entry) for entry in gate(answers, occupied, bound)])
        assert sum(entry**2 for entry in alone[-1]) <= bound**2, f"{kind_name(records[place])} is not held"
    for occupied in (np.ones(places, bool), np.arange(places) % 3 == 0, np.zeros(places, bool)):
        expected = [
            sum(column) for column in zip(*(a for a, there in zip(alone, occupied, strict=True) if there), strict=True)
        ]
        assert [int(entry) for entry in gate(answers, occupied, bound)] == (expected or [0] * shape[0])


def kind_name(record):
    return KINDS[int(kind_of(record))]


def right_gate(entries, occupied, bound):
    """In exact integers: what is within the bound counts, what is not does not."""
    wide = entries.astype(object)
    held = np.array([sum(entry**2 for entry in row) <= bound**2 for row in wide])
    return (wide * (held & occupied)[:, None]).sum(0)


def test_the_checks_accept_a_gate_that_is_right():
    check_gate(right_gate, records_of_every_kind())


def int32_norm_gate(entries, occupied, bound):
    """Wrong: squares are added up in 32 bits, where they wrap."""
    with np.errstate(over="ignore"):
        squares = (entries * entries).sum(1, dtype=np.int32)
    return (entries.astype(object) * ((np.abs(squares.astype(np.int64)) <= bound**2) & occupied)[:, None]).sum(0)


def entry_gate(entries, occupied, bound):
    """Wrong: every entry is held, and the norm is not."""
    return (np.clip(entries, -bound, bound).astype(object) * occupied[:, None]).sum(0)


def absolute_gate(entries, occupied, bound):
    """Wrong: the absolute value of INT_MIN in 32 bits is INT_MIN, which is within every bound."""
    with np.errstate(over="ignore"):
        held = np.abs(entries).max(1) <= bound // 3
    return (entries.astype(object) * (held & occupied)[:, None]).sum(0)


def crowded_gate(entries, occupied, bound):
    """Wrong: an empty place counts."""
    return right_gate(entries, np.ones_like(occupied), bound)


@pytest.mark.parametrize("gate", [int32_norm_gate, entry_gate, absolute_gate, crowded_gate])
def test_the_checks_refuse_gates_that_are_wrong(gate):
    with pytest.raises(AssertionError):
        check_gate(gate, records_of_every_kind())


def test_every_kind_of_answer_occurs():
    kinds = np.asarray(jax.vmap(kind_of)(records_of_every_kind()))
    assert set(kinds.tolist()) == set(range(len(KINDS)))


def test_answers_are_a_function_of_the_record_alone():
    """Alone, among others, in another order, under jit: the same integers."""
    records = records_of_every_kind(40)
    together = np.asarray(jax.vmap(lambda record: adversary(record, (D,), BOUND))(records))
    backwards = np.asarray(jax.jit(jax.vmap(lambda record: adversary(record, (D,), BOUND)))(records[::-1]))[::-1]
    np.testing.assert_array_equal(together, backwards)
    np.testing.assert_array_equal(together[7], adversary(records[7], (D,), BOUND))
    assert together.min() == INT_MIN
    assert together.max() == INT_MAX
    assert len(np.unique(together, axis=0)) > 20


def test_records_of_any_type_have_answers():
    record = {"x": np.float32([1.0, np.nan]), "n": np.int32(3), "small": np.int8(-1), "flag": np.bool_(True)}
    other = record | {"flag": np.bool_(False)}
    answers = [np.asarray(adversary(one, (64,), BOUND)) for one in (record, other)]
    assert answers[0].dtype == np.int32
    assert not np.array_equal(*answers)


def test_the_unsteady_double_answers_twice_and_says_so():
    double = unsteady((D,), BOUND)
    record = np.float32([1.0, 2.0])
    first, second = (np.asarray(jax.jit(double)(record)) for _ in range(2))
    assert np.all(first == 0)
    assert np.all(second == BOUND)
    assert sum(double.calls.values()) == 2
    several = unsteady((D,), BOUND)
    jax.block_until_ready(jax.vmap(several)(np.zeros((5, 2), np.float32) + np.arange(5, dtype=np.float32)[:, None]))
    assert len(several.calls) == 5
