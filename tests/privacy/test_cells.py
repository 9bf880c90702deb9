"""Shards: a release of some cells of the places reads their records alone, and costs `Parallel`.

The exact part holds for every table: with the same noise, neighbours differ in what leaves the cell of the neighbour
and in nothing else, by no more than the sensitivity. The counted part attacks through the vault: bounds on rates hold
together with probability 1 - 1e-5 in a test (Hoeffding), and seeds are fixed.
"""

import math
from contextlib import suppress
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from toy import Book, GaussianModel

from dpmcmc.accounting import Adjacency, Budget, Gaussian, Ledger, Parallel, Partition, compose, delta, epsilon
from dpmcmc.enclave import (
    CurvatureSum,
    GradientSum,
    Journal,
    LogRatio,
    NoisyCount,
    PrivateData,
    SubsampledGradientSum,
    Sum,
)
from dpmcmc.enclave.core import cells as cells_of_places
from dpmcmc.enclave.core import programs, vault
from dpmcmc.errors import BudgetExceeded, InvalidArgument, ReleaseRefused, ResumeRefused

N, CUTS = 1_300, (100, 160, 700)
CELLS = [(0,), (1,), (2,), (3,), (0, 2), (1, 3)]
PLACES = [*zip((0, *CUTS), (*CUTS, N), strict=True)]
SUM = Sum(clip=1.0, noise_multiplier=3.0)


def logistic_table(size=N, seed=0):
    draws = np.random.default_rng(seed)
    return {"x": draws.uniform(-1, 1, (size, 3)).astype(np.float32), "y": draws.integers(0, 2, size)}


class Logistic:
    temperature = 1.0

    def log_prior(self, theta):
        return -0.5 * jnp.sum(theta**2)

    def log_likelihood(self, theta, record):
        return jax.nn.log_sigmoid((2.0 * record["y"] - 1.0) * (record["x"] @ theta))


THETA = jnp.array([0.3, -0.2, 0.1])
QUESTIONS = {
    "sum": lambda oracle: oracle.sum(SUM, lambda record: record["x"]).value,
    "gradient": lambda oracle: oracle.force(GradientSum(1.0, 3.0), THETA).value,
    "curvature": lambda oracle: oracle.curvature(CurvatureSum(1.0, 3.0), THETA, jnp.eye(3)).value,
    "count": lambda oracle: oracle.sum(NoisyCount(0.5, 3.0), lambda record: record["x"]).value,
    "ratio": lambda oracle: oracle.log_posterior_ratio(LogRatio(1.0, 3.0), THETA, 2 * THETA).value,
}


def rows_of(table, cells):
    kept = np.concatenate([np.arange(*PLACES[cell]) for cell in cells])
    return jax.tree.map(lambda leaf: leaf[kept], table)


@pytest.mark.parametrize(("name", "accelerate"), [*((name, True) for name in QUESTIONS), ("gradient", False)])
def test_a_shard_answers_as_a_vault_of_its_records_would(name, accelerate):
    """The same bits, given the same noise: of few places, of most, and of all; and the same price."""
    table = logistic_table()
    data = PrivateData.without_guarantee(table, accelerate=accelerate)
    for cells in ((1,), (0, 2), (0, 1, 2, 3)) if name == "sum" else ((0, 1),):

        def program(oracle, cells=cells):
            return QUESTIONS[name](oracle.shard(oracle.partition(CUTS), cells))

        alone = PrivateData.without_guarantee(rows_of(table, cells), accelerate=accelerate)
        expected = alone.run(QUESTIONS[name], model=Logistic(), insecure_seed=4)
        found = data.run(program, model=Logistic(), insecure_seed=4)
        np.testing.assert_array_equal(found, expected)
        price = alone.price(QUESTIONS[name], model=Logistic())
        assert data.price(program, model=Logistic()) == Parallel(data.partition(CUTS), dict.fromkeys(cells, price))
        assert data.audit(program, model=Logistic()).paths == alone.audit(QUESTIONS[name], model=Logistic()).paths


def test_several_shards_in_one_program_with_loops_and_chains():
    data = PrivateData.without_guarantee(logistic_table())

    def program(oracle, theta):
        partition = oracle.partition(CUTS)

        def step(theta, _):
            for cells in ((0,), (1, 3)):
                theta = theta + 1e-3 * oracle.shard(partition, cells).force(GradientSum(1.0, 3.0), theta).value
            return theta, theta

        walk = jax.vmap(lambda start: jax.lax.scan(step, start, None, length=5)[1])(theta)
        return walk, oracle.sum(SUM, lambda record: record["x"]).value

    thetas = jnp.zeros((2, 3))
    price = data.price(program, thetas, model=Logistic())
    everywhere = data.price(lambda oracle: oracle.sum(SUM, lambda record: record["x"]).value)
    once = {
        cells: data.price(
            lambda oracle, cells=cells: oracle.shard(oracle.partition(CUTS), cells).force(GradientSum(1.0, 3.0), THETA),
            model=Logistic(),
        )
        for cells in ((0,), (1, 3))
    }
    assert price == compose([once[0,] * 10, once[1, 3] * 10, everywhere])
    walk, _ = data.run(program, thetas, model=Logistic(), insecure_seed=1)
    assert walk.shape == (2, 5, 3)
    assert len({np.asarray(chain).tobytes() for chain in walk}) == 2


@pytest.mark.parametrize("options", [{}, {"devices": jax.devices()}], ids=["one device", "devices"])
def test_neighbours_differ_in_what_leaves_their_cell_and_by_no_more_than_the_sensitivity(options):
    """With the same noise what differs is the sum, exactly: for a neighbour in every cell, and at every cut."""
    table = np.random.default_rng(3).uniform(-1, 1, (N, 2)).astype(np.float32)

    def program(oracle):
        partition = oracle.partition(CUTS)
        asked = [oracle.shard(partition, cells).sum(SUM, lambda record: record) for cells in CELLS]
        return [answer.value for answer in asked], asked[0].variance

    data = PrivateData.without_guarantee(table, **options)
    before, variance = data.run(program, insecure_seed=9)
    sensitivity = math.sqrt(variance) / SUM.noise_multiplier
    for place in sorted({0, N - 1, 400, *CUTS, *(cut - 1 for cut in CUTS)}):
        moved = table.copy()
        moved[place] = -10 * np.sign(table[place])
        after, _ = PrivateData.without_guarantee(moved, **options).run(program, insecure_seed=9)
        (own,) = (cell for cell, (first, end) in enumerate(PLACES) if first <= place < end)
        for cells, one, other in zip(CELLS, before, after, strict=True):
            moved_by = float(np.linalg.norm(np.asarray(one, float) - np.asarray(other, float)))
            assert (moved_by > 0.3) == (own in cells), (place, cells)
            assert moved_by <= sensitivity * (1 + 1e-5)
            assert moved_by == 0 or own in cells


# --- attacks through the vault ----------------------------------------------------------------------------------------

SAMPLES, ALARM = 20_000, 1e-5
NOISE = 1.0


def transcripts(table, seed):
    """Answers of all cells, each question turned by the answers before, one transcript for each chain."""
    data = PrivateData.without_guarantee(table)

    def program(oracle, angles):
        partition = oracle.partition(CUTS)

        def of_chain(angle):
            seen = []
            for cell in range(4):
                question = jnp.stack([jnp.cos(angle), jnp.sin(angle)])
                found = oracle.shard(partition, cell).sum(Sum(0.5, NOISE), lambda q, record: q @ record, question)
                seen.append(found.value[0])
                angle = angle + 0.1 * found.value[0]
            return jnp.stack(seen)

        return jax.vmap(of_chain)(angles)

    return np.asarray(data.run(program, np.zeros(SAMPLES, np.float32), insecure_seed=seed), float)


def one_cell(place):
    """The best test looks at the answers of the neighbour's cell; others add noise. Its score is that cell's answer."""
    (own,) = (cell for cell, (first, end) in enumerate(PLACES) if first <= place < end)
    tables = np.zeros((2, N, 2), np.float32)
    tables[:, place] = [[0.5, 0], [-0.5, 0]]
    found = [transcripts(table, seed=place + 7 * number) for number, table in enumerate(tables)]
    angles = [np.concatenate([np.zeros((SAMPLES, 1)), 0.1 * np.cumsum(one, axis=1)[:, :-1]], axis=1) for one in found]
    return [one * np.cos(angle) for one, angle in zip(found, angles, strict=True)], own


def shown(with_it, without, at):
    """The lower bound on delta(at) that thresholds on a score prove."""
    slack = math.sqrt(math.log(4 * 40 / ALARM) / (2 * SAMPLES))
    cuts = np.linspace(-3, 6, 40)
    gains = [np.mean(with_it > c) - slack - math.exp(at) * (np.mean(without > c) + slack) for c in cuts]
    return max(max(gains), 0.0)


@pytest.mark.parametrize("place", [130, 400, 900])
def test_no_attack_through_the_vault_exceeds_the_price(place):
    """A neighbour in each shard, and all shards asked at the whole price."""
    price = Parallel(Partition((0, *CUTS, N)), dict.fromkeys(range(4), Gaussian(NOISE)))
    (with_it, without), own = one_cell(place)
    for at in (0.0, 0.5, 1.0):
        attacks = [shown(with_it.sum(axis=1), without.sum(axis=1), at), shown(with_it[:, own], without[:, own], at)]
        assert max(attacks) <= delta(price, at)
    assert shown(with_it[:, own], without[:, own], 0.5) > 0.7 * delta(price, 0.5), "the attack has power"


@pytest.mark.parametrize("mistake", ["the mask is left out", "cells overlap"])
def test_an_attack_finds_releases_that_read_other_cells(mistake, monkeypatch):
    """Negative controls: what is priced as cells, and reads more, is caught by adding all answers up."""
    if mistake == "cells overlap":
        monkeypatch.setattr(cells_of_places.Cells, "intervals", property(lambda _: [(0, N)]))
    else:
        monkeypatch.setattr(vault, "slots_of", lambda *given: given[2])
        monkeypatch.setattr(cells_of_places, "is_copied", lambda *_: False)
    (with_it, without), _ = one_cell(400)
    price = Parallel(Partition((0, *CUTS, N)), dict.fromkeys(range(4), Gaussian(NOISE)))
    assert shown(with_it.sum(axis=1) / 2, without.sum(axis=1) / 2, 1.0) > 1.2 * delta(price, 1.0)


# --- secret slots -----------------------------------------------------------------------------------------------------


def test_under_add_or_remove_one_cells_are_slots_and_have_a_name_of_their_own():
    ones = np.ones((300, 1), np.float32)
    options = {"adjacency": "add_or_remove_one", "capacity": 1_000}
    vaults = [PrivateData.without_guarantee(ones, **options) for _ in range(2)]
    first, second = (one.partition([500]) for one in vaults)
    assert first.places != second.places
    assert first.cuts == (0, 500, 1_000)

    def counted(oracle, partition):
        return [oracle.shard(partition, cell).sum(Sum(1.0, 0.01), lambda record: record).value for cell in (0, 1)]

    found = [float(np.round(one[0])) for one in vaults[0].run(lambda oracle: counted(oracle, first), insecure_seed=1)]
    occupied = np.asarray(vaults[0]._slots.occupied)
    assert found == [occupied[:500].sum(), occupied[500:].sum()]
    assert sum(found) == 300
    for other in (second, Partition((0, 500, 1_000)), Partition((0, 500, 999), first.places)):
        with pytest.raises(InvalidArgument, match="partition cuts other places than these records have: 1000"):
            vaults[0].price(lambda oracle, other=other: counted(oracle, other))


def test_the_name_of_places_tells_nothing_of_their_seed():
    """It is a hash of its own: the numbers that decide who stands where are another."""
    seed = b"\x01" * 32
    name = vault.id_of(seed)
    assert len(name) == 32
    assert bytes.fromhex(name) not in vault.draw_places(seed, 64, 64).tobytes()
    assert vault.id_of(None) == ""
    assert vault.id_of(b"\x02" * 32) != name


def test_positions_mean_nothing_where_records_may_be_missing():
    book = Ledger.in_memory()
    book.register("people", Budget(1.0, 1e-6), Adjacency.ADD_OR_REMOVE_ONE)
    data = PrivateData(np.ones((30, 1)), adjacency="add_or_remove_one", capacity=60, ledger=book, dataset="people")
    with pytest.raises(InvalidArgument, match="make it with"):
        data.price(lambda oracle: oracle.shard(Partition((0, 30, 60)), 0).sum(SUM, lambda record: record).value)


# --- what is paid -----------------------------------------------------------------------------------------------------


def of_cell(cell, noise=9.0):
    def program(oracle):
        return oracle.shard(oracle.partition(CUTS), cell).sum(Sum(1.0, noise), lambda record: record["x"]).value

    return program


def test_every_shard_has_the_whole_budget_once():
    data = PrivateData(logistic_table(), budget=Budget(1.0, 1e-6))
    price = data.price(of_cell(0, 5.0))
    assert 0.5 < epsilon(price, 1e-6) < 1.0
    for cell in (2, 0, 3, 1):
        data.run(of_cell(cell, 5.0))
    assert epsilon(data.account.spent, 1e-6) == pytest.approx(epsilon(price, 1e-6), rel=1e-6)
    for program in (of_cell(1, 5.0), lambda oracle: oracle.sum(Sum(1.0, 5.0), lambda record: record["x"]).value):
        with pytest.raises(BudgetExceeded):
            data.run(program)


def test_a_reservation_is_spent_place_by_place_in_any_order():
    book = Book()
    data = PrivateData(logistic_table(), ledger=book, dataset="people")
    whole = data.price(lambda oracle: oracle.sum(Sum(1.0, 9.0), lambda record: record["x"]).value)
    partition = data.partition(CUTS)
    reserved = Parallel(partition, {0: whole * 2, 1: whole, 3: whole})
    with data.reserve(reserved) as paid:
        for cell in (3, 0, (0, 1)):
            paid.run(of_cell(cell))
        for refused in (0, 1, 2, 3, (0, 3)):
            with pytest.raises(BudgetExceeded, match="costs more than what is left"):
                paid.run(of_cell(refused))
    assert paid.spent == reserved
    with data.reserve(Parallel(partition, dict.fromkeys(range(4), whole))) as paid:
        paid.run(lambda oracle: oracle.sum(Sum(1.0, 9.0), lambda record: record["x"]).value)
        with pytest.raises(BudgetExceeded):
            paid.run(of_cell(2))
    assert epsilon(paid.spent, 1e-6) == epsilon(whole, 1e-6)
    with data.reserve(whole * 3) as paid, pytest.raises(BudgetExceeded):  # which was not cut
        paid.run(of_cell(2))
    assert paid.spent == compose([])


def test_what_draws_a_batch_is_not_asked_of_a_shard():
    data = PrivateData.without_guarantee(np.ones((N, 3)))
    batch = SubsampledGradientSum.without_replacement(clip=1.0, noise_multiplier=3.0, batch_size=10)
    with pytest.raises(ReleaseRefused, match="draws a batch queries a shard"):
        data.price(lambda oracle: oracle.shard(oracle.partition(CUTS), 2).force(batch, THETA), model=GaussianModel())


def test_a_shard_of_a_shard_is_refused():
    data = PrivateData.without_guarantee(np.ones((N, 3)))
    with pytest.raises(InvalidArgument, match="is that of a shard"):
        data.price(lambda oracle: oracle.shard(oracle.partition(CUTS), 2).shard(oracle.partition(CUTS), 1))


def test_cells_and_partitions_of_one_form_share_an_executable():
    """Another cell and other cuts compile nothing, where there are about as many places."""
    programs.SHARED.clear()
    data = PrivateData.without_guarantee(logistic_table())
    for cuts, cells in product([(200, 300, 500, 800), (210, 300, 490, 800)], [(0,), (2,), (0, 1, 3, 4)]):
        data.run(lambda oracle, p=cuts, c=cells: oracle.shard(oracle.partition(p), c).sum(SUM, lambda r: r["x"]).value)
    assert len(programs.SHARED) == 2


# --- resumed runs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"adjacency": "add_or_remove_one", "capacity": N + 100}], ids=["rows", "slots"]
)
def test_a_run_of_shards_is_resumed_and_asks_the_same_cells(options, tmp_path, monkeypatch):
    monkeypatch.setenv("DPMCMC_STATE", str(tmp_path / "private"))
    adjacency = Adjacency.parse("adjacency", options.get("adjacency", "replace_one"))
    ledger = Ledger.create(f"sqlite:///{tmp_path}/book.db")
    ledger.register("people", Budget(2.0, 1e-6), adjacency)

    def opened():
        return PrivateData(logistic_table(), ledger=ledger, dataset="people", **options)

    def price(data):
        return compose([data.price(of_cell(0)), data.price(of_cell(2))])

    data = opened()
    with suppress(KeyboardInterrupt), Journal.create(tmp_path / "run", {}) as journal:  # noqa: SIM117
        with data.reserve_resumable(price(data), journal) as paid:
            before = paid.run(of_cell(0))
            raise KeyboardInterrupt
    data = opened()
    with Journal.open(tmp_path / "run") as journal, data.reserve_resumable(price(data), journal) as paid:
        with pytest.raises(ResumeRefused, match="begun with another program"):
            paid.run(of_cell(2))
        np.testing.assert_array_equal(before, paid.run(of_cell(0)))
        paid.run(of_cell(2))
    spent = ledger.account("people").spent
    assert spent.cells[0] == spent.cells[2] != spent.cells[1]
