# ruff: noqa: T201
"""A random search for programs in which one record does more than its bound allows.

Small expressions of queries and columns (products, sums, differences, squares, `where`, exp, log, tanh), minus a column
that holds what float32 arithmetic makes of them, an ulp more or less, or something hostile. Every mechanism and every
path gets some, and through the public API alone: releases with next to no noise (`exact_sums`). Two oracles:

(i) with one finite record, the rest NaN, the sum is no longer than one clip, wherever the record stands;
(ii) replacing one record among hostile ones moves the sum by at most two clips.

Whether what a record adds depends on its place is counted, not judged: under replace-one a record keeps its place.

    python tests/privacy/corpus/search.py --expressions 2000 --seed 0
    python tests/privacy/corpus/search.py --expressions 2000 --seed 0 --part 0 8 --output part_0.csv

runs anywhere, on a GPU too, and prints what it found; the second one every eighth case of the same search, with a table
of them. False alarms: 1.3e-14 a check.
"""

import argparse
import csv
import os
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

if __name__ == "__main__":  # tables of one shape have one program: compile it once
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", tempfile.mkdtemp(prefix="search-"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import jax
import jax.numpy as jnp
import numpy as np
from exact_sums import QUIET, QUIETEST, least_distance, least_norm
from vaults import free_vault

from dpmcmc.enclave import CurvatureSum, GradientSum, LogRatio, MinibatchLogRatio, SubsampledGradientSum, Sum

# --- expressions -----------------------------------------------------------------------------------------------------

LEAVES = ("q", "q", "p", "p[0]", "u", "v", "two")
BINARY = {
    "*": lambda _, a, b: a * b,
    "+": lambda _, a, b: a + b,
    "-": lambda _, a, b: a - b,
    "where": lambda lib, a, b: lib.where(a > b, a, b * b),
}
UNARY = {
    "square": lambda _, a: a * a,
    "tanh": lambda lib, a: lib.tanh(a),
    "log": lambda lib, a: lib.log(lib.abs(a) + lib.float32(1)),
    "exp": lambda lib, a: lib.exp(lib.tanh(a)),
}


def draw_tree(draws, depth):
    """A random expression; the root is a product more often than not."""
    if depth == 0:
        return draws.choice(LEAVES)
    kind = draws.choice(
        ["*", "square", "+", "-", "where", "tanh", "log", "exp"], p=[0.4, 0.2, 0.1, 0.1, 0.08, 0.04, 0.04, 0.04]
    )
    if kind in UNARY:
        return str(kind), draw_tree(draws, depth - 1)
    return str(kind), draw_tree(draws, depth - 1), draw_tree(draws, draws.integers(0, depth))


def draw_expression(draws):
    """An expression that ends in a product, or in a product and a sum."""
    depth = int(draws.integers(1, 4))
    root = (
        ("*", draw_tree(draws, depth - 1), draw_tree(draws, depth - 1))
        if draws.random() < 0.6
        else draw_tree(draws, depth)
    )
    return root if isinstance(root, tuple) else ("square", str(root))


def evaluate(tree, values, lib):
    """The value of an expression, one operation at a time, in JAX or in NumPy."""
    if isinstance(tree, str):
        return values[tree]
    kind, *operands = tree
    operands = [evaluate(operand, values, lib) for operand in operands]
    return (UNARY if kind in UNARY else BINARY)[kind](lib, *operands)


def show(tree):
    return tree if isinstance(tree, str) else f"{tree[0]}({', '.join(map(show, tree[1:]))})"


def leaves_of(q, p, u, v, lib):
    return {"q": q, "p": p, "p[0]": p[0], "u": u, "v": v, "two": lib.float32(2)}


# --- what is asked ---------------------------------------------------------------------------------------------------

KINDS = (
    "sum",
    "fine sum",
    "gradient",
    "curvature",
    "fixed",
    "poisson",
    "linear",
    "residuals",
    "rank one",
    "ratio",
    "minibatch",
)
ROW = np.array([0.6, -0.3, 0.5, 0.2, -0.5], np.float32)


@dataclass(frozen=True)
class Case:
    """Some expressions in one program: a mechanism, a table, chains."""

    kind: str
    n: int
    d: int
    chains: int = 1
    chunk_size: int = 20_000
    expressions: int = 8
    seed: int = 0
    places: int = 1


@dataclass
class Found:
    """What a search came to."""

    expressions: int = 0
    checks: int = 0
    hits: list = field(default_factory=list)
    worst: Counter = field(default_factory=Counter)
    of_place: int = 0

    def add(self, other):
        self.expressions += other.expressions
        self.checks += other.checks
        self.hits += other.hits
        self.of_place += other.of_place
        for kind, value in other.worst.items():
            self.worst[kind] = max(self.worst[kind], value)


class Model:
    """A likelihood whose gradient, Hessian or ratio is the vector y of an expression."""

    temperature = 1.0

    def __init__(self, kind, tree, number, flipped):
        self.kind, self.tree, self.number, self.flipped = kind, tree, number, flipped

    def log_prior(self, position):
        return 0.0 * jnp.sum(position)

    def y(self, q, p, record):
        value = evaluate(self.tree, leaves_of(q, p, record["u"], record["v"], jnp), jnp)
        column = record[f"x{self.number}"]
        return column - value if self.flipped else value - column

    def log_likelihood(self, position, record):
        held = jax.lax.stop_gradient(position)
        if self.kind in {"linear", "rank one"}:
            y, along = self.y(held[:1], held[1:2], record), record["row"] @ position
            return jnp.sum(y) * (along if self.kind == "linear" else along**2 / 2)
        if self.kind == "residuals":
            return jnp.sum(self.y(held[0], held[1], record) * (record["row"] @ position))
        if self.kind in {"ratio", "minibatch"}:
            return position[-1] * jnp.sum(self.y(held[:-1], held[-2::-1], record))
        y = self.y(held, held[::-1], record)
        return jnp.sum(y * position**2 / 2) if self.kind == "curvature" else jnp.sum(y * position)


def position_shape(case):
    return {
        "linear": (5,),
        "rank one": (5,),
        "residuals": (5, case.d),
        "ratio": (case.d + 1,),
        "minibatch": (case.d + 1,),
    }.get(case.kind, (case.d,))


def mechanism_of(case, clip):
    """The mechanism, with next to no noise; batches have every record, or nine of ten."""
    if case.kind == "curvature" or case.kind == "rank one":
        return CurvatureSum(clip, QUIET)
    return {
        "sum": lambda: Sum(clip, QUIET),
        "fine sum": lambda: Sum(clip, QUIETEST),
        "gradient": lambda: GradientSum(clip, QUIET),
        "linear": lambda: GradientSum(clip, QUIET),
        "residuals": lambda: GradientSum(clip, QUIET),
        "fixed": lambda: SubsampledGradientSum.without_replacement(clip, QUIETEST, case.n),
        "poisson": lambda: SubsampledGradientSum.poisson(clip, 2 * QUIETEST, 0.9),
        "ratio": lambda: LogRatio(clip, QUIET),
        "minibatch": lambda: MinibatchLogRatio(case.n, clip, QUIETEST),
    }[case.kind]()


def ask(case, oracle, model, clip, position):
    """One release of one chain."""
    mechanism = mechanism_of(case, clip)
    if case.kind in {"sum", "fine sum"}:
        return oracle.sum(mechanism, lambda t, record: model.y(t, t[::-1], record), position)
    own = type(oracle)(oracle.facts, model)  # several likelihoods in one program
    if case.kind in {"curvature", "rank one"}:
        return own.curvature(mechanism, position, jnp.eye(position.shape[0]))
    if case.kind in {"ratio", "minibatch"}:
        return own.log_posterior_ratio(mechanism, position, position.at[-1].add(1.0))
    return own.force(mechanism, position)


def program_of(case, models, clips):
    def program(oracle, positions):
        return [
            jax.vmap(lambda position, model=model, clip=clip: ask(case, oracle, model, clip, position))(positions)
            for model, clip in zip(models, clips, strict=True)
        ]

    return program


# --- tables ----------------------------------------------------------------------------------------------------------


def queries_in(case, position):
    """What an expression sees of a position, as in `Model`."""
    if case.kind in {"linear", "rank one"}:
        return position[:1], position[1:2]
    if case.kind == "residuals":
        return position[0], position[1]
    if case.kind in {"ratio", "minibatch"}:
        return position[:-1], position[-2::-1]
    return position, position[::-1]


def hostile_row(draws, case, trees, position, plain=False):
    """One record: columns that cancel, nearly cancel, or are none."""
    q, p = queries_in(case, position)
    u, v = (np.float32(draws.choice([1.0, -1.0]) * 10.0 ** draws.uniform(-2, 6)) for _ in range(2))
    record = {"u": u, "v": v, "row": ROW * np.float32(draws.choice([1, 1e-3, 1e3]))}
    for number, tree in enumerate(trees):
        with np.errstate(all="ignore"):
            value = np.broadcast_to(np.float32(evaluate(tree, leaves_of(q, p, u, v, np), np)), q.shape).copy()
        if not plain and draws.random() < 0.3:
            value[draws.integers(len(value))] = draws.choice(np.float32([np.inf, -np.inf, 3e38, 1e-40, 0, np.nan]))
        elif draws.random() < 0.4:
            steps = draws.integers(-1, 2, len(value))
            value = np.where(steps > 0, np.nextafter(value, np.float32(np.inf)), value)
            value = np.where(steps < 0, np.nextafter(value, np.float32(-np.inf)), value)
        record[f"x{number}"] = value.astype(np.float32)
    return record


def table_of(case, record):
    """A table that holds one record everywhere, for places to be overwritten."""
    return {name: np.repeat(np.asarray(leaf, np.float32)[None], case.n, axis=0) for name, leaf in record.items()}


def with_record(table, place, record):
    changed = {name: leaf.copy() for name, leaf in table.items()}
    for name, leaf in changed.items():
        leaf[place] = record[name]
    return changed


def run_case(case):
    """Search some expressions, and return what was found."""
    draws = np.random.default_rng([case.seed, case.n, case.d, KINDS.index(case.kind)])
    trees = [draw_expression(draws) for _ in range(case.expressions)]
    models = [Model(case.kind, tree, number, bool(draws.integers(2))) for number, tree in enumerate(trees)]
    clips = [float(10.0 ** draws.uniform(-3, 2)) for _ in trees]
    size = 10.0 ** draws.uniform(0, 7)
    positions = (size * draws.uniform(1, 2, (case.chains, *position_shape(case)))).astype(np.float32)
    if case.kind in {"ratio", "minibatch"}:
        positions[..., -1] = 0
    program, found = program_of(case, models, clips), Found(expressions=len(trees))

    def released(table):
        vault = free_vault(table, chunk_size=case.chunk_size)
        return jax.tree.map(np.asarray, vault.run(program, jnp.asarray(positions)))

    def judge(which, noisy, distance, allowed):
        for number, (tree, clip) in enumerate(zip(trees, clips, strict=True)):
            weight = 1 / 0.9 if case.kind == "poisson" else 1.0
            for chain in range(case.chains):
                parts = [jax.tree.map(lambda leaf, chain=chain: leaf[chain], one[number]) for one in noisy]
                ratio = distance(*parts) / (weight * clip * allowed)
                found.checks += 1
                found.worst[which, case.kind] = max(found.worst[which, case.kind], ratio)
                if not ratio <= 1:
                    found.hits.append(f"{which}: {ratio:.4g} times the bound, {show(tree)}, chain {chain}, {case}")

    def place():
        return int(draws.choice([0, case.n - 1, draws.integers(case.n)]))

    missing = table_of(
        case, {name: np.full_like(leaf, np.nan) for name, leaf in hostile_row(draws, case, trees, positions[0]).items()}
    )
    record = hostile_row(draws, case, trees, positions[0], plain=True)
    alone = [released(with_record(missing, place(), record)) for _ in range(case.places)]
    for noisy in alone:
        judge("alone", [noisy], least_norm, 1)
    for other in alone[1:] if case.kind != "poisson" else []:  # whose batches differ from run to run
        pairs = zip(jax.tree.leaves(alone[0], is_leaf=is_noisy), jax.tree.leaves(other, is_leaf=is_noisy), strict=True)
        found.of_place += sum(least_distance(*pair) > 0 for pair in pairs)
    crowd = table_of(case, hostile_row(draws, case, trees, positions[0]))
    for _ in range(min(case.n, 16)):
        crowd = with_record(crowd, int(draws.integers(case.n)), hostile_row(draws, case, trees, positions[0]))
    if case.kind != "poisson":
        at = place()
        both = [released(with_record(crowd, at, hostile_row(draws, case, trees, positions[0]))) for _ in range(2)]
        judge("replaced", both, least_distance, 2)
    return found


def is_noisy(value):
    return hasattr(value, "variance")


# --- many ------------------------------------------------------------------------------------------------------------

SIZES = (
    (8, 3),
    (100, 4),
    (1000, 2),
    (2000, 5),
    (16, 16),
    (203, 6),
    (1000, 7),
    (50, 64),
    (20_000, 4),
    (100, 1),
    (100_000, 3),
)
"""Records and coordinates."""


def cases(expressions, seed=0, at_once=8, places=1):
    """Cases that together have so many expressions: every kind, sizes, chains and chunks in turn."""
    draws = np.random.default_rng([seed, 7])
    for number in range(-(-expressions // at_once)):
        n, d = SIZES[(number // len(KINDS) + number) % len(SIZES)]
        kind = KINDS[number % len(KINDS)]
        if kind == "curvature":
            d = min(d, 8)
        if kind == "residuals":
            d = min(max(d, 2), 16)
        if kind in {"fixed", "poisson", "minibatch"}:
            n = min(n, 2000)
        yield Case(
            kind,
            n,
            d,
            chains=int(draws.choice([1, 1, 3])),
            chunk_size=int(draws.choice([20_000, 20_000, 16, 7])) if n <= 2000 else 20_000,
            expressions=at_once,
            seed=1000 * seed + number,
            places=places,
        )


def search(expressions, seed=0, at_once=8, places=1, say=lambda _: None, part=(0, 1), write=lambda _: None):
    """Run many cases, or every so-many-th of them from the first of a part on, and return what was found."""
    total = Found()
    for case in list(cases(expressions, seed, at_once, places))[part[0] :: part[1]]:
        start = time.perf_counter()
        found = run_case(case)
        total.add(found)
        write(row_of(case, found))
        say(f"{time.perf_counter() - start:6.1f} s  {len(found.hits):3} hits  {case}")
        for hit in found.hits[:3]:
            say(f"         {hit}")
    return total


COLUMNS = ["kind", "n", "d", "chains", "chunk_size", "seed", "places", "expressions", "checks", "hits", "of_place"]
COLUMNS += ["worst_alone", "worst_replaced"]


def row_of(case, found):
    """What one case came to, for a table; the worst sums are in bounds."""
    worst = {f"worst_{which}": f"{ratio:.6f}" for (which, _), ratio in found.worst.items()}
    return asdict(case) | {"checks": found.checks, "hits": len(found.hits), "of_place": found.of_place} | worst


def main():
    parser = argparse.ArgumentParser(
        description="Search for programs in which one record does more than its bound allows."
    )
    parser.add_argument("--expressions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--places", type=int, default=2)
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), metavar=("FIRST", "STEP"))
    parser.add_argument("--output", type=Path, default=None)
    options = parser.parse_args()
    rows = []

    def write(row):
        rows.append(row)
        if options.output:
            with options.output.open("w", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, restval="")
                writer.writeheader()
                writer.writerows(rows)

    found = search(
        options.expressions,
        options.seed,
        options.at_once,
        options.places,
        say=lambda text: print(text, flush=True),
        part=options.part,
        write=write,
    )
    device = jax.devices()[0]
    lines = [
        f"{found.expressions} expressions, {found.checks} checks on {device.device_kind} ({device.platform})",
        f"{len(found.hits)} break their bound; {found.of_place} sums depend on the place of their record",
        *(f"worst {which} of {kind}: {ratio:.5g} bounds" for (which, kind), ratio in sorted(found.worst.items())),
    ]
    print("\n".join(lines))
    raise SystemExit(bool(found.hits))


if __name__ == "__main__":
    main()
