"""The catalogue of attacks: everything in it is refused as it must be, or runs at its price and no more."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from block_programs import BLOCK_ATTACKS
from programs import ATTACKS as OF_ANYTHING
from programs import ONE, ROWS, TABLES, looped, total

from dpmcmc.accounting import Adjacency, Budget, Event
from dpmcmc.accounting.accountants import without_approximations
from dpmcmc.enclave import PrivateData

BUDGET = Budget(50.0, 1e-6)
ATTACKS = {**OF_ANYTHING, **BLOCK_ATTACKS}
REFUSED = {name: attack for name, attack in ATTACKS.items() if not isinstance(attack.expected, Event)}
RUN = {name: attack for name, attack in ATTACKS.items() if isinstance(attack.expected, Event)}


def test_there_are_enough_of_them():
    assert len(ATTACKS) + len(TABLES) >= 80
    assert len(ATTACKS) >= 60


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_anything_is_charged(name):
    attack = REFUSED[name]
    vault = PrivateData(ROWS, budget=BUDGET)
    with pytest.raises(attack.expected) as caught:
        vault.run(attack.program, *attack.arguments, model=attack.model)
    assert vault.account.epsilon_spent == 0
    assert not vault.account.standing
    said = str(caught.value)
    assert not any(f"{number:.5f}" in said or repr(float(number)) in said for number in ROWS[:5].ravel())


@pytest.mark.parametrize("name", RUN)
def test_priced_for_what_it_releases(name):
    attack = RUN[name]
    price = PrivateData(ROWS, budget=BUDGET).price(attack.program, *attack.arguments, model=attack.model)
    assert without_approximations(price)[0] == attack.expected


MOVED = [name for name, attack in RUN.items() if attack.moves is not None]
QUICK = ("a plain sum", "five chains", "a statistic that cancels", "a gradient", "a count", "a place beyond all blocks")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MOVED]
)
def test_one_record_moves_no_release_by_more_than_its_sensitivity(name):
    """Two tables, the same noise: the difference is that of exact sums, but for the rounding of float32."""
    attack = RUN[name]
    for other in (np.float32([9, -9, 9]), np.float32([np.inf, 0, 0])):
        changed = ROWS.copy()
        changed[17] = other
        first, second = (
            np.asarray(
                PrivateData.without_guarantee(rows).run(
                    attack.program, *attack.arguments, model=attack.model, insecure_seed=5
                ),
                np.float64,
            )
            for rows in (ROWS, changed)
        )
        shape = (-1, 9 if name == "a Hessian" else first.shape[-1] if first.ndim else 1)
        moved = np.linalg.norm((first - second).reshape(shape), axis=1)
        assert np.all(moved <= attack.moves + 1e-4), moved


def test_tables_are_as_dear_as_any():
    """The price is one of shapes: no table is refused, or costs another price, for its values."""

    def program(oracle, theta):
        return total(oracle, theta, lambda at, record: at * record.astype(jnp.float32))

    for name, table in TABLES.items():
        vault = PrivateData(table, budget=BUDGET)
        assert without_approximations(vault.price(program, jnp.ones(3)))[0] == ONE, name
        found = np.asarray(vault.run(program, jnp.ones(3)))
        assert np.all(np.isfinite(found)), name
        assert np.linalg.norm(found) <= 50 + 10 * 8, name  # fifty clips, and eight deviations of noise


def test_a_loop_runs_as_often_as_it_was_priced():
    """Noise of all turns differs: what was charged four times was drawn four times."""
    vault = PrivateData(ROWS, budget=BUDGET)
    found = np.asarray(vault.run(looped, jnp.ones(3)))
    assert len(np.unique(found)) == found.size == 12
    assert vault.facts.adjacency is Adjacency.REPLACE_ONE
    assert jax.tree.leaves(vault.account.spent.to_dict())
