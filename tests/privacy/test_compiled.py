"""The compiled program is read before it is executed: the gate is found in it, and never in one piece with floats."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_shards import CLIP, D, Logistic, Mixture, table
from toy import Book

from dpmcmc.enclave import (
    BarkerBit,
    BarkerTest,
    BlockSum,
    Counts,
    CurvatureSum,
    ExactSum,
    GradientSum,
    LogRatio,
    MinibatchLogRatio,
    NoisyCount,
    PenaltyTest,
    PrivateData,
    RemainderTest,
    SpacedSum,
    SphericalLaplaceSum,
    SubsampledGradientSum,
    Sum,
)
from dpmcmc.enclave.accelerate.linear import rank_one, rows
from dpmcmc.enclave.accelerate.linear import sums as linear_sums
from dpmcmc.enclave.arithmetic import quantise
from dpmcmc.enclave.arithmetic.lattice import Lattice
from dpmcmc.enclave.core import compiled, gate
from dpmcmc.enclave.core.compiled import check_compiled
from dpmcmc.enclave.core.gate import SCOPE, Ball, hold, seal
from dpmcmc.enclave.core.mechanism import CERTIFIED
from dpmcmc.errors import RunRefused

POSITIONS = jnp.asarray(np.random.default_rng(1).normal(size=(2, D)).astype(np.float32))


def force(mechanism):
    return lambda oracle, theta: oracle.force(mechanism, theta).value


def ratio(mechanism):
    return lambda oracle, theta: oracle.log_posterior_ratio(mechanism, theta, theta + 0.1).value


def accept(mechanism):
    return lambda oracle, theta: oracle.accept(mechanism, theta, theta + 0.1)


def curvature(mechanism):
    return lambda oracle, theta: oracle.curvature(mechanism, theta, jnp.eye(D)).value


def total(mechanism):
    return lambda oracle, theta: oracle.sum(mechanism, lambda t, record: jnp.tanh(record["x"] * t), theta).value


def in_blocks(oracle, theta):
    def statistic(t, record):
        return jnp.concatenate([jnp.round(4 * record["x"][:1]), jnp.tanh(record["x"] * t)])

    return oracle.sum(BlockSum(CLIP, 2.0, 5, 2), statistic, theta).value


BATCH = SubsampledGradientSum.without_replacement(CLIP, 2.0, 50)
CASES = {  # the question, the model and the path that it takes
    "sum": (total(Sum(CLIP, 2.0)), Mixture(), "reference"),
    "sum of some": (total(SpacedSum(CLIP, 2.0, 2)), Mixture(), "reference"),
    "count": (total(NoisyCount(CLIP, 0.5)), Mixture(), "reference"),
    "counts": (total(Counts(CLIP, 2.0)), Mixture(), "reference"),
    "sum in blocks": (in_blocks, Mixture(), "reference"),
    "spherical Laplace": (total(SphericalLaplaceSum(CLIP, 2.0)), Mixture(), "reference"),
    "gradient": (force(GradientSum(CLIP, 2.0)), Mixture(), "reference"),
    "gradient of a linear predictor": (force(GradientSum(CLIP, 2.0)), Logistic(), "linear rows"),
    "curvature": (curvature(CurvatureSum(CLIP, 2.0)), Mixture(), "reference"),
    "curvature of a linear predictor": (curvature(CurvatureSum(CLIP, 2.0)), Logistic(), "rank-one squares"),
    "log-ratio": (ratio(LogRatio(CLIP, 2.0)), Mixture(), "reference"),
    "penalty test": (accept(PenaltyTest(CLIP, 2.0)), Mixture(), "reference"),
    "remainder test": (accept(RemainderTest(CLIP, 2.0)), Mixture(), "reference"),
    "Barker bit": (accept(BarkerBit(0.1)), Mixture(), "reference"),
    "Barker test": (accept(BarkerTest(50, 1.0, 0.5)), Mixture(), "reference"),
    "minibatch log-ratio": (ratio(MinibatchLogRatio(50, CLIP, 2.0)), Mixture(), "reference"),
    "gradient of a batch": (force(BATCH), Mixture(), "reference"),
    "gradient of a Poisson batch": (force(SubsampledGradientSum.poisson(CLIP, 2.0, 0.1)), Logistic(), "reference"),
}


def prepared(question, model, size=803, rows=None, **facts):
    """The program of two chains in a loop of three steps, audited and not compiled yet."""
    data = PrivateData.without_guarantee(table(size) if rows is None else rows, **facts)

    def program(oracle, thetas):
        ask = jax.vmap(lambda theta: question(oracle, theta))
        return jax.lax.scan(lambda carry, _: (carry, ask(thetas)), 0, None, length=3)[1]

    return data._programs.prepare(program, (POSITIONS,), model)


def gate_operations(text):
    """How many instructions hold operations of the gate."""
    program = compiled._Program(text)
    found = [one for body in program.computations.values() for one in body.values() if program.holds_gate(one)]
    return len(found)


@pytest.mark.parametrize("name", CASES)
def test_the_gate_is_found_in_every_program(name):
    question, model, path = CASES[name]
    one = prepared(question, model)
    assert one.audit.paths == (path,)
    text = one.compile().as_text()
    check_compiled(text)
    assert gate_operations(text) >= 3, "there should be comparisons, a choice and a sum"


@pytest.mark.parametrize("name", ["gradient of a linear predictor", "curvature of a linear predictor"])
def test_the_gate_is_found_without_the_faster_paths(name):
    question, model, _ = CASES[name]
    one = prepared(question, model, accelerate=False)
    assert one.audit.paths == ("reference",)
    assert gate_operations(one.compile().as_text()) >= 3


def test_the_gate_is_found_where_chunks_are_many():
    question, model, _ = CASES["gradient"]
    assert gate_operations(prepared(question, model, size=3000, chunk_size=100).compile().as_text()) >= 3


# --- what XLA is given follows from what is public: not from a record, nor from how many there are --------------------

ADDED = {"adjacency": "add_or_remove_one", "capacity": 1000}
BATCHES = {"Barker test", "minibatch log-ratio", "gradient of a batch"}  # of a fixed size: under replace-one alone


def texts(name, rows, neighbour, **facts):
    """What XLA is given for a table and for a neighbour: shapes, types, constants, and all operations."""
    question, model, _ = CASES[name]
    return [prepared(question, model, rows=one, **facts).text() for one in (rows, neighbour)]


@pytest.mark.parametrize("name", CASES)
def test_the_program_of_a_neighbour_with_another_record_is_the_same(name):
    rows, neighbour = table(803), table(803)
    neighbour["x"][17], neighbour["y"][17] = np.inf, 1 - neighbour["y"][17]
    one, other = texts(name, rows, neighbour)
    assert one == other


@pytest.mark.parametrize("name", sorted(set(CASES) - BATCHES))
def test_the_program_of_a_neighbour_with_a_record_less_is_the_same(name):
    rows = table(803)
    without = {column: leaf[:-1] for column, leaf in rows.items()}
    one, other = texts(name, rows, without, **ADDED)
    assert one == other


def test_another_capacity_is_another_program():
    """The control: where the number of slots differs, which is public, so does the text."""
    question, model, _ = CASES["sum"]
    one, other = (prepared(question, model, **{**ADDED, "capacity": capacity}).text() for capacity in (1000, 2000))
    assert one != other


def test_all_mechanisms_with_a_price_are_here():
    asked = {
        *("Sum", "NoisyCount", "GradientSum", "CurvatureSum", "LogRatio", "PenaltyTest", "RemainderTest"),
        *("BarkerBit", "BarkerTest", "MinibatchLogRatio", "SubsampledGradientSum", "SphericalLaplaceSum"),
        *("BlockSum", "Counts", "SpacedSum"),
    }
    assert {name.split(".")[1] for name in CERTIFIED if not name.startswith("exact.")} == asked


def test_a_program_that_is_not_private_needs_no_gate():
    """It has none, would be refused if it were read, and gives the sum of what is finite."""
    rows, data = table(40)["x"], PrivateData.without_guarantee(table(40))

    def program(oracle):
        return oracle.sum(ExactSum(), lambda record: record["x"]).value

    one = data._programs.prepare(program, (), None)
    assert not one.audit.is_gated
    assert gate_operations(one.compile().as_text()) == 0
    with pytest.raises(RunRefused, match="has no operation of the gate"):
        check_compiled(one.compile().as_text())
    np.testing.assert_allclose(data.run(program), np.sum(rows[np.all(np.isfinite(rows), axis=1)], axis=0), rtol=1e-4)


# --- controls: what must be refused ----------------------------------------------------------------------------------

ROWS = np.random.default_rng(0).normal(size=(512, D)).astype(np.float32)
LATTICE = Lattice(2.0**-20, 2**20)


def to_integers(rows):
    return quantise.vector(jnp.tanh(rows), LATTICE)


def gated(integers):
    return jnp.sum(hold(Ball(LATTICE.bound, D), integers, jnp.ones((512, 1), jnp.bool_)), axis=0)


def text_of(function, *arguments):
    return jax.jit(function).lower(*arguments).compile().as_text()


def test_a_sealed_sum_is_accepted():
    def sealed(once, rows):
        return gated(seal(once, lambda turn: to_integers(rows + turn), jnp.zeros((512, D), jnp.int32)))

    text = text_of(sealed, jnp.int32(1), ROWS)
    check_compiled(text)
    assert gate_operations(text)


def test_a_gate_without_a_seal_is_refused():
    with pytest.raises(RunRefused, match="floating point into the gate"):
        check_compiled(text_of(lambda rows: gated(to_integers(rows)), ROWS))


@pytest.mark.parametrize("once", [1, np.int32(1)])
def test_a_loop_whose_turns_the_compiler_knows_is_refused(once):
    """XLA writes a loop of one turn out, and then computes the integers once to check them and once to add them up."""

    def unrolled(rows):
        return gated(seal(jnp.int32(once), lambda turn: to_integers(rows + turn), jnp.zeros((512, D), jnp.int32)))

    with pytest.raises(RunRefused, match="floating point into the gate"):
        check_compiled(text_of(unrolled, ROWS))


def test_a_barrier_is_no_seal():
    """An optimisation barrier is gone from the program that is executed."""

    def with_barrier(rows):
        return gated(jax.lax.optimization_barrier(to_integers(rows)))

    with pytest.raises(RunRefused, match="floating point into the gate"):
        check_compiled(text_of(with_barrier, ROWS))


def test_a_program_without_a_gate_is_refused():
    for text in (text_of(lambda rows: jnp.sum(jnp.sin(rows)), ROWS), text_of(lambda x: x + 1, 3), "", "HloModule m"):
        with pytest.raises(RunRefused, match="has no operation of the gate"):
            check_compiled(text)


@pytest.mark.parametrize(
    "line",
    [
        "  what is this",
        "  %a = ",
        "  %a = s32[3]{0}",
        "  %a = s32[3]{0} add(%b, %c",
        "  %a = (s32[3]{0}, s32[] tuple(%b, %c)",
        "  ROOT add(%b, %c)",
    ],
)
def test_a_program_that_cannot_be_read_is_refused(line):
    text = f"HloModule m\n\nENTRY %main (p: s32[3]) -> s32[3] {{\n{line}\n}}\n"
    with pytest.raises(RunRefused, match="cannot be read, so nothing is executed"):
        check_compiled(text)


def test_a_float_in_any_operation_of_the_gate_is_seen():
    """One line of an accepted program after the other is turned into floating point: each time it is refused."""
    question, model, _ = CASES["gradient"]
    lines = prepared(question, model).compile().as_text().splitlines()
    places = [i for i, line in enumerate(lines) if f"/{SCOPE}/" in line and re.search(r"= (s32|u32|pred)\[", line)]
    plain = [i for i in places if not re.search(r"\b(while|conditional|tuple|get-tuple-element|parameter)\(", lines[i])]
    assert len(plain) >= 3
    for place in plain:
        changed = list(lines)
        changed[place] = re.sub(r"= (s32|u32|pred)\[", "= f32[", lines[place], count=1)
        with pytest.raises(RunRefused, match="floating point into the gate"):
            check_compiled("\n".join(changed))


def test_a_vault_refuses_what_is_not_sealed_and_charges_nothing(monkeypatch):
    """All the way through `run`, on every path: with the loops taken out."""

    def unsealed(once, compute, before):  # noqa: ARG001
        return compute(jnp.int32(0))

    for module in (gate, rows, linear_sums, rank_one):
        monkeypatch.setattr(module, "seal", unsealed)
    for name in ("gradient", "gradient of a linear predictor", "curvature of a linear predictor", "log-ratio"):
        question, model, _ = CASES[name]
        book = Book()
        data = PrivateData(table(803), ledger=book, dataset="people")
        with pytest.raises(RunRefused, match="floating point into the gate"):
            data.run(
                partial(lambda oracle, theta, question: question(oracle, theta), question=question),
                POSITIONS[0],
                model=model,
            )
        assert book.reserved == [], name
