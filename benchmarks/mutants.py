"""Planted bugs: is each of them caught, and after how many runs?

    python benchmarks/mutants.py --output benchmarks/results/mutants.csv

Each mutant changes a few words in the source of the library, in this process alone, as somebody might have written them. Then
what should notice is run: the audit of a mechanism on its worst pair, with three times as many runs until a lower bound
lies above the claim (at a confidence of 1 - 1e-6), or the check of what hostile records add, which is one run. The library as
it is passes all of these, which is checked with the same seeds and sizes: `--none` runs them without any bug.
"""

import argparse
import contextlib
import csv
import functools
import gc
import inspect
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from dpmcmc.accounting import Adjacency
from dpmcmc.audits import bins, blocks, catalogue, lattice, sensitivity
from dpmcmc.audits.audit import Running, judge
from dpmcmc.audits.pairs import ADD, REPLACE, Pair
from dpmcmc.enclave.accelerate.self_test import blocks_add_up
from dpmcmc.enclave.arithmetic import int64, quantise
from dpmcmc.enclave.arithmetic import lattice as lattices
from dpmcmc.enclave.batches import sampling, subsample
from dpmcmc.enclave.core import audit, gate, metadata, programs, release, self_test, session, sums
from dpmcmc.enclave.mechanisms import (
    barker_bit,
    barker_test,
    block_sum,
    counts,
    curvature,
    log_ratio,
    minibatch_log_ratio,
    noisy_count,
)
from dpmcmc.enclave.noise import chacha20, discrete_gaussian, floating, modes
from dpmcmc.errors import DpmcmcError

ERROR, DELTA = 1e-6, 1e-6
RUNS = (10_000, 30_000, 100_000, 300_000, 1_000_000)


@contextlib.contextmanager
def rewritten(owner: Any, name: str, *changes: tuple[str, str]) -> Iterator[None]:
    """Change words in the source of a function, wherever the library holds it."""
    original = inspect.getattr_static(owner, name)
    function = getattr(original, "__wrapped__", original)
    function = function.fget if isinstance(function, property) else function
    source = textwrap.dedent(inspect.getsource(function))
    for old, new in changes:
        if old not in source:
            raise ValueError(f"{name} has no {old!r}")
        source = source.replace(old, new)
    namespace = dict(vars(sys.modules[function.__module__]))
    exec(compile(source, f"mutant of {name}", "exec"), namespace)  # noqa: S102
    with contextlib.ExitStack() as stack:
        for holder, attribute in holders(owner, name, original):
            stack.enter_context(mock.patch.object(holder, attribute, namespace[function.__name__]))
        yield


def holders(owner: Any, name: str, original: Any) -> list[tuple[Any, str]]:
    """Return who holds a function by which name: its class, or every module that imported it."""
    if inspect.isclass(owner):
        return [(owner, name)]
    modules = [module for title, module in list(sys.modules.items()) if title.startswith("dpmcmc.")]
    return [(module, key) for module in modules for key, value in list(vars(module).items()) if value is original]


def with_change(owner: Any, name: str, *changes: tuple[str, str]) -> Callable[[], Any]:
    """Return what plants a change of words."""
    return functools.partial(rewritten, owner, name, *changes)


def instead(owner: Any, name: str, value: Any) -> Callable[[], Any]:
    """Return what puts something else in the place of a name."""
    return lambda: mock.patch.object(owner, name, value)


@dataclass(frozen=True)
class Mutant:
    """A bug, where it is planted, and what should notice it."""

    words: str
    plants: tuple[Callable[[], Any], ...]
    notice: Callable[[], int | None]
    """Returns after how many runs it was noticed, if it was."""
    by: str


def by_audit(make: Callable[..., Pair], *arguments: Any, epsilon: float = 1.0) -> Callable[[], int | None]:
    """Return what audits a pair, with more and more runs."""

    def notice() -> int | None:
        running = Running(make(epsilon, DELTA, *arguments), RUNS[0] // 10)
        for runs in RUNS:
            if judge(running.pair, running.go_on(runs), DELTA, ERROR).is_broken:
                return runs
        return None

    return notice


def by_sensitivity(name: str, adjacency: Adjacency = REPLACE) -> Callable[[], int | None]:
    """Return what looks at what hostile records add."""

    def notice() -> int | None:
        (question,) = (one for one in sensitivity.questions() if one.name == name)
        return 1 if any(found.is_broken for found in sensitivity.contributions(question, adjacency)) else None

    return notice


def by_self_test() -> int | None:
    """Check the machine as every process does before its first run: gates against exact arithmetic."""
    try:
        self_test.check_machine.__wrapped__()
    except DpmcmcError:
        return 1
    return None


def by_blocks() -> int | None:
    """Check sums in blocks as it is done on a machine once: all records in one block too."""
    return None if blocks_add_up(1, 1024, 7, 3, 5) else 1


def segments() -> int | None:
    """Run the two halves of a pair in two programs of one session: they must not share their noise."""
    pair = catalogue.sums(1.0, DELTA, REPLACE, "exact", False)
    chains = 1000
    vault = pair.vault(0)
    with vault.reserve(vault.price(pair.many, pair.queries_of(chains)) * 2) as paid:
        first, second = (np.asarray(paid.run(pair.many, pair.queries_of(chains))) for _ in range(2))
    return chains if np.std(first - second) < 1 else None  # sqrt(2) without sharing, to one part in forty


OPEN_GATE = with_change(gate.MovableBall, "passes", ("<= self.limit", "<= np.uint32(2**32 - 1)"))
SMALLER = "scale if isinstance(scale, tuple) else scale * {}"


def less_noise(factor: float) -> Callable[[], Any]:
    """Return what draws noise of a smaller scale than was priced."""
    change = SMALLER.format(factor)
    return with_change(sums, "noisy", ("draw_noise(mode, key, scale,", f"draw_noise(mode, key, {change},"))


def uniform(key: jax.Array, scale: Any, shape: tuple[int, ...]) -> int64.Wide:
    """Noise of the right variance and the wrong form."""
    return floating.from_float(jax.random.uniform(key, shape, jnp.float32, -1, 1) * (3**0.5 * scale))


def coarse_tails(key: jax.Array, scale: Any, shape: tuple[int, ...]) -> int64.Wide:
    """A normal draw by the inverse of its distribution function, from twelve random bits: none beyond 3.5."""
    bits = jax.random.bits(key, shape, jnp.uint32) >> 20
    return floating.from_float(jax.scipy.special.ndtri((bits.astype(jnp.float32) + 0.5) / 4096) * scale)


def one_summand_less(key: jax.Array, scale: Any, shape: tuple[int, ...]) -> int64.Wide:
    """The discrete Gaussian without the largest of its summands."""
    return discrete_gaussian.discrete_gaussian(key, scale / 2**discrete_gaussian.STEP_BITS, shape)


def exactly(draw: Callable[..., Any]) -> Callable[[], Any]:
    """Return what draws the proven noise by something else."""
    return lambda: mock.patch.dict(modes.MODES, exact=modes.Mode("exact", draw, modes.Claim.PROVEN))


def shuffled(key: jax.Array, rate: float, population: int, _: Any = None) -> Any:
    """A batch of fixed size in the place of a Poisson batch."""
    size = round(rate * population)
    return subsample.Batch(subsample.fixed_batch_indices(key, size, population), jnp.ones(size, jnp.bool_))


GRADIENTS = by_audit(catalogue.gradients, REPLACE, "exact", False)
BITS = "sum of bits of a run"

MUTANTS = [
    Mutant("noise at two thirds", (less_noise(2 / 3),), GRADIENTS, "audit"),
    Mutant("noise at 0.9", (less_noise(0.9),), GRADIENTS, "audit"),
    Mutant("uniform noise of the right variance", (exactly(uniform),), GRADIENTS, "audit"),
    Mutant(
        "tails of twelve random bits", (exactly(coarse_tails),), by_audit(catalogue.ratios, REPLACE, "exact"), "audit"
    ),
    Mutant("float32 noise on the lattice", (exactly(floating.plain),), by_audit(lattice.parity, "exact"), "audit"),
    Mutant(
        "noise with one sign",
        (with_change(discrete_gaussian, "lookup", ("jnp.where(negative == 1, -size, size)", "size")),),
        GRADIENTS,
        "audit",
    ),
    Mutant("a summand of the noise forgotten", (exactly(one_summand_less),), GRADIENTS, "audit"),
    Mutant(
        "one key for all chains",
        (
            with_change(
                release.Place,
                "chain_keys",
                ("jnp.arange(num_chains, dtype=jnp.uint32)", "jnp.zeros(num_chains, jnp.uint32)"),
            ),
        ),
        by_audit(catalogue.twice, REPLACE, "exact", "chains"),
        "audit",
    ),
    Mutant(
        "one key for all turns of a loop",
        (with_change(release.Place, "inside", ("* np.uint32(length) + iteration", "* np.uint32(length)")),),
        by_audit(catalogue.twice, REPLACE, "exact", "loop"),
        "audit",
    ),
    Mutant(
        "one key for all programs of a session",
        (instead(session.rng, "fresh_key", functools.partial(chacha20.insecure_key, 3)),),
        segments,
        "audit of two segments",
    ),
    Mutant(
        "one key for all releases of a program",
        (with_change(release.Place, "chain_keys", ("self.keys[self.number]", "self.keys[0]")),),
        by_audit(catalogue.twice, REPLACE, "exact", "row"),
        "audit",
    ),
    Mutant(
        "the sensitivity of add-or-remove under replace-one",
        (lambda: mock.patch.dict(metadata.CLIPS_MOVED, {REPLACE: 1}),),
        GRADIENTS,
        "audit",
    ),
    Mutant(
        "a loop of two priced as one",
        (with_change(audit, "_releases", ('equation.params["length"] if', 'equation.params["length"] - 1 if')),),
        by_audit(catalogue.twice, REPLACE, "exact", "loop"),
        "audit",
    ),
    Mutant(
        "two chains priced as one",
        (with_change(audit, "audit", ("count * prod(chains)", "count * max(prod(chains) // 2, 1)")),),
        by_audit(catalogue.twice, REPLACE, "exact", "chains"),
        "audit",
    ),
    Mutant(
        "an exact sum where a noisy one was priced",
        (
            with_change(
                sums,
                "noisy",
                ("draw_noise(mode, key, scale, total.high.shape)", "draw_noise(mode, key, 0.01, total.high.shape)"),
            ),
        ),
        GRADIENTS,
        "audit",
    ),
    Mutant(
        "a Poisson batch made by shuffling",
        (instead(sampling, "poisson_batch", shuffled),),
        by_audit(lattice.poisson_among_others),
        "audit",
    ),
    Mutant(
        "batches twice as large as priced",
        (with_change(sampling.Poisson, "gaussian", ("self.rate, noise_over_clip", "self.rate / 2, noise_over_clip")),),
        by_audit(catalogue.poisson, ADD, "exact"),
        "audit",
    ),
    Mutant(
        "a count in which a record counts twice",
        (
            with_change(
                noisy_count.NoisyCount, "plan", ("Interval(0, lattice.bound)", "Interval(0, 2 * lattice.bound)")
            ),
            with_change(quantise, "count", ("jnp.int32(lattice.bound)", "jnp.int32(2 * lattice.bound)")),
        ),
        by_sensitivity("NoisyCount"),
        "sensitivity",
    ),
    Mutant(
        "a penalty test without noise",
        (
            with_change(
                log_ratio,
                "penalty_decision",
                (
                    "add_noise(facts, total, lattices, of_noise)",
                    "add_noise(facts, total, Lattice(lattices.granularity, lattices.bound, 1.0), of_noise)",
                ),
            ),
        ),
        by_audit(catalogue.penalty_tests, REPLACE, "exact", False),
        BITS,
    ),
    Mutant(
        "a Barker coin that reads two clips",
        (
            with_change(
                barker_bit,
                "logistic_lattice",
                ("bound = math.floor(clip * 2**bits)", "bound = 2 * math.floor(clip * 2**bits)"),
            ),
        ),
        by_audit(lattice.wide_barker_bits, REPLACE),
        BITS,
    ),
    Mutant(
        "a Barker test with half of its normal draw",
        (
            with_change(
                barker_test.BarkerTest,
                "plan",
                ("draw_noise(facts.noise, key, _NORMAL)", "draw_noise(facts.noise, key, _NORMAL / 4)"),
                ("queries[-1] + correction", "queries[-1] + 0 * correction"),
            ),
        ),
        by_audit(catalogue.barker_tests, "exact"),
        BITS,
    ),
    Mutant(
        "a batch ratio that weighs twice as much",
        (
            with_change(
                minibatch_log_ratio.MinibatchLogRatio,
                "gated",
                ("// (2 * fixed.bound))", "// fixed.bound)"),
                (
                    "return linear, jnp.clip(square, 0, fixed.sensitivity - 1 - 2 * fixed.bound * linear)",
                    "return 2 * linear, square",
                ),
            ),
        ),
        by_audit(catalogue.minibatch_ratios, "exact"),
        "audit",
    ),
    Mutant(
        "the clip without room for rounding",
        (
            OPEN_GATE,
            with_change(
                quantise,
                "room",
                (
                    "max(Ball(bound, length).reach * (1 - 2.0**-17 - length * 2.0**-22) - length**0.5 / 2, 0.0)",
                    "bound * (1 + 2.0**-16)",
                ),
            ),
        ),
        by_sensitivity("GradientSum"),
        "sensitivity",
    ),
    Mutant(
        "sqrt(d) forgotten: every coordinate clipped alone",
        (
            OPEN_GATE,
            with_change(
                quantise,
                "_with_square",
                ("jnp.sum(values * values, axis=axis, keepdims=True)", "values * values"),
                ("jnp.matmul(values * values, ones, precision=lax.Precision.HIGHEST)", "values * values"),
            ),
        ),
        by_sensitivity("GradientSum"),
        "sensitivity",
    ),
    Mutant(
        "a clamp left out",
        (
            with_change(
                gate.Interval, "hold", ("jnp.clip(integers, np.int32(self.low), np.int32(self.high))", "integers")
            ),
            with_change(
                quantise,
                "scalar",
                (
                    "jnp.clip(steps, -lattice.bound, lattice.bound)",
                    "jnp.clip(steps, -4 * lattice.bound, 4 * lattice.bound)",
                ),
            ),
        ),
        by_sensitivity("LogRatio"),
        "sensitivity",
    ),
    Mutant(
        "what is not finite becomes the largest integer",
        (
            with_change(
                quantise,
                "vector",
                (
                    "return _nearest(jnp.where(counts, contribution * scale, 0), lattice.bound)",
                    "return jnp.where(counts, _nearest(jnp.where(counts, contribution * scale, 0), lattice.bound), jnp.int32(-(2**31)))",
                ),
            ),
            with_change(
                gate.MovableBall,
                "passes",
                (
                    "((integers ^ sign) - sign).astype(jnp.uint32)",
                    "jnp.maximum((integers ^ sign) - sign, 0).astype(jnp.uint32)",
                ),
            ),
        ),
        by_sensitivity("GradientSum"),
        "sensitivity",
    ),
    Mutant(
        "squares that overflow 32 bits in the gate",
        (
            with_change(
                gate.MovableBall,
                "passes",
                (">> self.coarse", ">> 0"),
                (">> self.drop", ">> 0"),
                ("jnp.minimum(size, self.beyond)", "size"),
            ),
            with_change(
                quantise,
                "vector",
                (
                    "jnp.minimum(1 / jnp.asarray(lattice.granularity, jnp.float32), shorten)",
                    "jnp.minimum(1 / jnp.asarray(lattice.granularity, jnp.float32), 8 * shorten)",
                ),
                (
                    "return _nearest(jnp.where(counts, contribution * scale, 0), lattice.bound)",
                    "return _nearest(jnp.where(counts, contribution * scale, 0), 2**30) & np.int32(-65536)",
                ),
            ),
        ),
        by_self_test,
        "self-test",
    ),
    Mutant(
        "a sum in int32",
        (
            with_change(
                int64,
                "add",
                ("low = first.low + second.low", "return widen((first.low + second.low).astype(jnp.int32))"),
            ),
        ),
        by_sensitivity("Sum"),
        "sensitivity",
    ),
    Mutant(
        "a chunk counted twice",
        (with_change(gate, "gated_sum", ("& (start + lax.iota(jnp.int32, chunk) >= first)", "")),),
        by_sensitivity("Sum"),
        "sensitivity",
    ),
    Mutant(
        "off by one at the end of a chunk",
        (with_change(gate, "gated_sum", (">= first)", ">= first - 1)")),),
        by_sensitivity("Sum"),
        "sensitivity",
    ),
    Mutant(
        "a padded row that adds",
        (with_change(gate, "gated_sum", ("who = counts(Chunk(start, chunk)) &", "who =")),),
        by_sensitivity("Sum, not zero at zero"),
        "sensitivity",
    ),
    Mutant(
        "sqrt(2) forgotten off the diagonal",
        (instead(curvature, "OFF_DIAGONAL", 58),),
        by_sensitivity("CurvatureSum, rank-one squares"),
        "sensitivity",
    ),
    Mutant(
        "residuals of rows that pass no gate",
        (
            with_change(gate, "hold", ("jnp.where(counts, gate.hold(integers), 0)", "jnp.where(counts, integers, 0)")),
            with_change(
                quantise,
                "scalar",
                (
                    "jnp.clip(steps, -lattice.bound, lattice.bound)",
                    "jnp.clip(steps, -4 * lattice.bound, 4 * lattice.bound)",
                ),
            ),
        ),
        by_sensitivity("GradientSum, linear rows"),
        "sensitivity",
    ),
    Mutant(
        "a lattice with less noise than priced",
        (
            with_change(
                lattices,
                "gradient_lattice",
                ("bound = math.floor(scale / ratio)", "bound = 2 * math.floor(scale / ratio)"),
                ("float(ratio) / scale)), bound", "float(ratio) / scale / 2)), bound"),
            ),
        ),
        GRADIENTS,
        "audit",
    ),
    Mutant(
        "one noise for all blocks",
        (
            with_change(
                sums, "noisy", ("draw_noise(mode, key, scale, total.high.shape)", "draw_noise(mode, key, scale, (1,))")
            ),
        ),
        by_audit(functools.partial(blocks.in_blocks, catalogue.sums), REPLACE, False),
        "audit",
    ),
    Mutant(
        "the entries of a block and those beside it clipped alone",
        (
            with_change(
                block_sum,
                "sum_in_blocks",
                (
                    "gate.passes(entries)[..., 0]",
                    "gate.passes(entries[..., :1])[..., 0] & gate.passes(entries[..., 1:])[..., 0]",
                ),
            ),
            with_change(
                block_sum.SumInBlocks,
                "total",
                (
                    "quantise.vector(own, lattice, aim=numbers.aim)]",
                    "*(quantise.vector(part, lattice, aim=numbers.aim) for part in (own[:, :1], own[:, 1:]))]",
                ),
            ),
        ),
        by_sensitivity("BlockSum"),
        "sensitivity",
    ),
    Mutant(
        "counts that may be negative",
        (with_change(counts.PositiveBall, "passes", ("jnp.where(integers < 0, LEAST, integers)", "integers")),),
        by_audit(bins.opposites, REPLACE, "exact", False),
        "audit",
    ),
    Mutant(
        "bins taken for as near each other as one record and none",
        (instead(counts, "ROOT_OF_TWO", 1.0),),
        by_audit(bins.bins, REPLACE, "exact", True),
        "audit",
    ),
    Mutant(
        "a record that adds to its block and to the next one",
        (
            with_change(
                block_sum,
                "sum_in_blocks",
                (
                    '.at[places].add(halves, mode="promise_in_bounds")',
                    ".at[places].add(halves).at[jnp.minimum(places + 1, num_blocks - 1)].add(halves)",
                ),
            ),
        ),
        by_sensitivity("BlockSum"),
        "sensitivity",
    ),
    Mutant(
        "blocks added up in int32",
        (
            with_change(
                block_sum,
                "sum_in_blocks",
                (
                    "add(widen(sums[..., :block_length]), shift_left(widen(sums[..., block_length:]), 16))",
                    "widen(sums[..., :block_length] + (sums[..., block_length:] << 16))",
                ),
            ),
        ),
        by_blocks,
        "self-test",
    ),
    Mutant(
        "halves of a block that are shifted too far",
        (
            with_change(
                block_sum,
                "sum_in_blocks",
                ("widen(sums[..., block_length:]), 16)", "widen(sums[..., block_length:]), 17)"),
            ),
        ),
        by_sensitivity("BlockSum"),
        "sensitivity",
    ),
]


def caught(mutant: Mutant, plant: bool = True) -> int | None:
    """Return after how many runs a mutant is noticed; without planting it, nothing should be."""
    programs.SHARED.clear()
    with contextlib.ExitStack() as stack:
        for one in mutant.plants if plant else ():
            stack.enter_context(one())
        try:
            return mutant.notice()
        except DpmcmcError as error:  # refused before it ran: by a check of the library itself
            if not plant:
                raise
            print(f"  refused: {type(error).__name__}: {str(error)[:200]}")
            return 0
        finally:
            programs.SHARED.clear()
            jax.clear_caches()
            gc.collect()


def main() -> None:
    """Read what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="mutants whose words hold this")
    parser.add_argument("--none", action="store_true", help="plant nothing: then nothing must be noticed")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as compiled:  # the two tables of a pair have one program
        jax.config.update("jax_compilation_cache_dir", compiled)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        run(options)


def run(options: argparse.Namespace) -> None:
    """Plant, and write the rows as they come."""
    self_test.check_machine()  # as it is: not by the first mutant
    rows = []
    for mutant in (one for one in MUTANTS if options.only in one.words):
        runs = caught(mutant, plant=not options.none)
        rows.append({"mutant": mutant.words, "caught": runs is not None, "runs": runs, "by": mutant.by})
        print(rows[-1], flush=True)
        with options.output.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["mutant", "caught", "runs", "by"])
            writer.writeheader()
            writer.writerows(rows)
    found = sum(row["caught"] for row in rows)
    print(f"{found} of {len(rows)} are noticed")
    raise SystemExit(found != (0 if options.none else len(rows)))


if __name__ == "__main__":
    main()
