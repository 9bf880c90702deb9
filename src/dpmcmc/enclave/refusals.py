"""Why the auditor refuses, in words: operations and mechanisms. Privacy does not rest on this file."""

from collections.abc import Sequence

from jax.extend.core import JaxprEqn

from dpmcmc.enclave.core.allowed import found
from dpmcmc.enclave.lines import current_line, innermost_line, line_of
from dpmcmc.errors import BudgetExceeded, InvalidArgument, OperationRefused, ReleaseRefused, RunRefused

_LOOP = "all records are computed in one loop that ends with the slowest of them"
_SOLVER = "how it treats many matrices at once is up to a library, and was not shown to keep records apart"
_LIBRARY = "a library chooses its algorithm, which was not shown to keep records apart"
_RANDOM = "a function of a record must not be random; draw numbers in the program"
_DEVICES = "it speaks to other devices"
_EFFECT = "it orders side effects, and there may be none"
_ORDER = "on a GPU overlapping windows are added up in no fixed order"
_UNUSED = "no likelihood or statistic needs it"

NOT_ON_RECORDS: dict[str, str] = {
    "after_all": _EFFECT,
    "all_gather": _DEVICES,
    "all_to_all": _DEVICES,
    "approx_top_k": "its result depends on the device; use jax.lax.top_k",
    "axis_index": _DEVICES,
    "call": _UNUSED,
    "closed_call": _UNUSED,
    "conv_general_dilated": _LIBRARY,
    "create_token": _EFFECT,
    "custom_lin": _UNUSED,
    "dce_sink": _EFFECT,
    "device_put": "records stay where the vault put them",
    "eig": _SOLVER,
    "eigh": _SOLVER,
    "empty2": "it reads memory that nobody wrote",
    "fft": _LIBRARY,
    "get": "it reads mutable state",
    "hessenberg": _SOLVER,
    "householder_product": _SOLVER,
    "igamma": _LOOP,
    "igamma_grad_a": _LOOP,
    "igammac": _LOOP,
    "linear_solve": _SOLVER,
    "lu": _SOLVER,
    "lu_pivots_to_permutation": _SOLVER,
    "optimization_barrier": _UNUSED,
    "pmax": _DEVICES,
    "pmin": _DEVICES,
    "ppermute": _DEVICES,
    "psum": _DEVICES,
    "qr": _SOLVER,
    "ragged_all_to_all": _DEVICES,
    "random_bits": _RANDOM,
    "random_clone": _RANDOM,
    "random_fold_in": _RANDOM,
    "random_gamma": _RANDOM,
    "random_seed": _RANDOM,
    "random_split": _RANDOM,
    "random_unwrap": _RANDOM,
    "random_wrap": _RANDOM,
    "reduce": "its axes are not checked by JAX; use jnp.sum, max, min, prod, all or any",
    "reduce_window": "its axes are not checked by JAX; use the windows of jax.lax that have a name",
    "regularized_incomplete_beta": _LOOP,
    "rng_bit_generator": _RANDOM,
    "rng_uniform": "it has a state of its own; " + _RANDOM,
    "schur": _SOLVER,
    "select_and_gather_add": _ORDER,
    "select_and_scatter": _ORDER,
    "select_and_scatter_add": _ORDER,
    "sharding_constraint": "records stay where the vault put them",
    "stage": _UNUSED,
    "svd": _SOLVER,
    "swap": "it writes mutable state",
    "threefry2x32": _RANDOM,
    "tridiagonal": _SOLVER,
    "tridiagonal_solve": _SOLVER,
    "while": "how often it turns could depend on them, so that one record keeps the run going or changes what others "
    "give; use jax.lax.scan or fori_loop to a fixed length, and mask what is not used",
}
"""What JAX has in plain sight that is not on the list, and why: for messages, and for the test that knows them all."""

_REASONS = {primitive: NOT_ON_RECORDS[name] for primitive, name in found(*NOT_ON_RECORDS).items()}


def not_on_records(path: Sequence[JaxprEqn]) -> OperationRefused:
    """Return the refusal of an operation on records, given what carries it and, last, itself."""
    name, reason = path[-1].primitive.name, _REASONS.get(path[-1].primitive)
    return OperationRefused(
        f"{name} at {innermost_line(path)} is applied to records: a likelihood or statistic may use the operations of "
        "JAX that are listed in dpmcmc.enclave.core.allowed alone, no callbacks, prints or foreign code"
        + (f"; {name}: {reason}" if reason else "")
    )


def not_in_programs(path: Sequence[JaxprEqn]) -> OperationRefused:
    """Return the refusal of an operation in a program, given what carries it and, last, itself."""
    return OperationRefused(
        f"{path[-1].primitive.name} at {innermost_line(path)} is not on the list of operations that a program may use, "
        "dpmcmc.enclave.core.allowed; use functions of jax.numpy, jax.scipy, jax.lax and jax.random, or apply it to "
        "the results after the run"
    )


def not_certified(mechanism: object, line: str) -> ReleaseRefused:
    """Return the refusal of a mechanism that nobody proved."""
    return ReleaseRefused(
        f"dp_release at {line} uses {type(mechanism).__name__}, which is not a certified mechanism: nobody proved "
        "what it claims; use one of dpmcmc.enclave.mechanisms"
    )


def calls_back(equation: JaxprEqn) -> OperationRefused:
    """Return the refusal of an operation that reaches beyond the program."""
    return OperationRefused(
        f"{equation.primitive.name} at {line_of(equation)}: a program of the enclave may have no callback "
        "and no other side effect; return the value from the program and look at it after the run"
    )


def not_counted(release: JaxprEqn, around: JaxprEqn) -> ReleaseRefused:
    """Return the refusal of a release inside an operation that may repeat it."""
    return ReleaseRefused(
        f"dp_release at {line_of(release)} stands inside {around.primitive.name} at {line_of(around)}, "
        "which does not say how often it happens; use jax.lax.scan to a fixed length and mask what is not used"
    )


def not_reserved() -> BudgetExceeded:
    """Return the refusal of a program that a reservation does not pay for."""
    return BudgetExceeded(
        "the program costs more than what is left of the reservation, which was refused and not charged; "
        "reserve the price of everything that is to run"
    )


def not_this_process() -> RunRefused:
    """Return the refusal of a copy of the process that reserved."""
    return RunRefused(
        "a reservation is used by another process than the one that made it, a copy of it (os.fork, multiprocessing): "
        "both would spend it. Nothing was executed; run programs in the process that reserved, or reserve in each"
    )


def no_copy() -> RunRefused:
    """Return the refusal of a copy of what executes programs."""
    return RunRefused(
        "what `reserve` hands out is neither copied nor pickled: each copy would spend what was set aside. "
        "Hand the object itself on, or reserve for each"
    )


def not_these_cells() -> ReleaseRefused:
    """Return the refusal of cells that are none."""
    return ReleaseRefused(
        "a release queries cells that are not whole numbers of cells of a dpmcmc.accounting.Partition; use "
        "oracle.shard(partition, cell), with cells that are known when the program is traced"
    )


def other_places(size: int) -> InvalidArgument:
    """Return the refusal of a partition of other places than those in which records stand."""
    return InvalidArgument(
        f"partition cuts other places than these records have: {size} of them, with a name of their own in each vault; "
        "make it with oracle.partition(cuts), of the oracle that the program was given, or data.partition(cuts)"
    )


def rows_may_move() -> InvalidArgument:
    """Return the refusal of cells of rows that are read in an order of which nothing is stated."""
    return InvalidArgument(
        "cells of rows that are read chunk by chunk are queried, and it is not stated that rows keep their place: in a "
        "table that is sorted by a value, a row that is replaced moves all others across the cuts. If no value decides "
        "where rows stand, open the table with rows_keep_place=True; else query all rows, or read them into memory, "
        "where they are shuffled: in_memory=True"
    )


def changed_settings(names: Sequence[str]) -> OperationRefused:
    """Return the refusal of a program that changes settings while it is traced."""
    return OperationRefused(
        f"the program changes {', '.join(names)} while it is traced, which changes what the compiler makes of it; set "
        "what you want before the program is handed over, and leave it alone inside"
    )


def batch_of_cells() -> ReleaseRefused:
    """Return the refusal of a release that draws a batch from cells."""
    return ReleaseRefused(
        "a release that draws a batch queries a shard; batches are drawn from all records. Query the shard for a sum "
        "over all its records, or the whole table for a batch"
    )


def no_plain_field(kind: str, name: str, found: str) -> ReleaseRefused:
    """Return the refusal of a mechanism that was changed after it was made."""
    return ReleaseRefused(
        f"{name} of a {kind} is a {found}, which was put there after it was made; expected what the class takes: make "
        f"a new {kind}"
    )


def differentiated() -> ReleaseRefused:
    """Return the refusal of a derivative of a release."""
    return ReleaseRefused(
        f"dp_release is differentiated at {current_line()}: a noisy release has no derivative; wrap the released "
        "value, or the position of the query, in jax.lax.stop_gradient"
    )


def performed_outside() -> ReleaseRefused:
    """Return the refusal of a release that nobody audited."""
    return ReleaseRefused(
        f"dp_release is performed outside an audited run, at {current_line()}: "
        "pass the program to PrivateData.run, which prices it, charges it and executes it"
    )


def other_shapes(equation: JaxprEqn) -> ReleaseRefused:
    """Return the refusal of a release whose function is another when it is called again."""
    return ReleaseRefused(
        f"dp_release at {line_of(equation)} gives other shapes than it was traced and priced for: the function "
        "that it applies to a record must give the same shape every time it is called"
    )


def no_gate() -> RunRefused:
    """Return the refusal of a compiled program without the gate."""
    return RunRefused(
        "the compiled program has no operation of the gate: no release is left in it, and nothing was executed. If "
        "what it returns depends on the value of no release, return one, or ask for none; else please report it"
    )


def floating_gate(operation: str, name: str, behind: str) -> RunRefused:
    """Return the refusal of a compiled program whose gate is mixed with floating point."""
    return RunRefused(
        f"the compiler put {operation} {name!r} on floating point into the gate, in front of {behind!r}: what one "
        "record adds could differ from what is checked. Nothing was executed; use another version of jaxlib"
    )


def no_capacity() -> InvalidArgument:
    """Return the refusal of a table whose number of records is private and for which no capacity is stated."""
    return InvalidArgument(
        "capacity=None must be stated under add_or_remove_one, where the number of records is private: "
        "give a round number that is known without the data, and never below the number of records"
    )


def small_capacity(stated: int) -> InvalidArgument:
    """Return the refusal of a capacity that does not hold."""
    return InvalidArgument(
        f"capacity={stated} is less than the number of records, which is private under add_or_remove_one; "
        "state one that suffices for any possible table"
    )


def other_data(equation: JaxprEqn) -> ReleaseRefused:
    """Return the refusal of a release that queries another vault."""
    return ReleaseRefused(
        f"dp_release at {line_of(equation)} queries another data set than the one that runs the program; "
        "use the oracle that the program was given"
    )


def not_audited(equation: JaxprEqn) -> ReleaseRefused:
    """Return the refusal of a release that stands in no program that was priced."""
    return ReleaseRefused(f"dp_release at {line_of(equation)} was not audited, and is not performed")
