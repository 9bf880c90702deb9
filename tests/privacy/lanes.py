"""Whether one record changes another's bits inside an operation: a case for each listed operation, and the check.

`vmap` gives each record a lane. Most lanes of a batch are easy; one of them is replaced by extreme values, and no bit
of the others may change. Run as a script it checks every operation, compiled by itself, on whichever device JAX has:
``python tests/privacy/lanes.py``.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from dpmcmc.enclave.core import allowed

WIDTH = 6
SIZES = (2, 8, 4096)
TINY, HUGE = 1e-45, 3e38
EASY = np.array([0.5, 0.75, 1.0, 1.25, 1.5, 2.0], np.float32)
EXTREMES = np.array(
    [
        *([value] * WIDTH for value in (0.0, -0.0, np.inf, -np.inf, np.nan, HUGE, -HUGE, TINY, 1e-38, 1e6, -1.0)),
        [np.nan, *EASY[1:]],
        [*EASY[:-1], np.inf],
        [np.inf, -np.inf, np.nan, 0.0, TINY, HUGE],
        [2.0**31, -(2.0**31), 6.0, -7.0, 5.0, 1e4],
        [3000.0, 2999.0, 0.5, 0.4999, 1e5, 1e-5],
    ],
    np.float32,
)
"""What one lane is replaced by: special values, indices out of range, arguments at which series converge slowly."""


def places(x):
    """Indices from a record: with easy values inside the array, some of them twice; with extreme ones anywhere."""
    return x.astype(jnp.int32)


def bits(x):
    return lax.bitcast_convert_type(x, jnp.uint32)


def matrix(x):
    return jnp.outer(x, x) + jnp.eye(WIDTH)


@jax.custom_vjp
def with_own_rule(x):
    return 2 * x


with_own_rule.defvjp(lambda x: (2 * x, None), lambda _, cotangent: (2 * cotangent,))

MODES = ("clip", "drop", "promise_in_bounds")
UNARY = """
    abs acos acosh asin asinh atan atanh bessel_i0e bessel_i1e cbrt ceil cos cosh digamma erf erf_inv erfc exp exp2
    expm1 floor is_finite lgamma log log1p logistic neg round rsqrt sign sin sinh sqrt square stop_gradient tan tanh
"""
BINARY = "add atan2 div eq ge gt le lt max min mul ne nextafter polygamma pow rem sub zeta"
OF_BITS = "and mulhi or shift_left shift_right_arithmetic shift_right_logical xor"
BOUND = "add_jaxvals eq_to le_to lt_to"
SCATTERED = {
    "scatter": "set",
    "scatter_add": "add",
    "scatter_max": "max",
    "scatter_min": "min",
    "scatter_mul": "multiply",
    "scatter_sub": "subtract",
}


def _scatter(method):
    def case(x):
        return [getattr(jnp.ones(WIDTH).at[places(x)], method)(x[::-1], mode=mode) for mode in MODES]

    return case


def _solve(matrix, side):
    return lax.linalg.triangular_solve(matrix, side, left_side=True, lower=True)


def _products(x):
    public = jnp.asarray(np.linspace(-1, 1, 3 * WIDTH, dtype=np.float32).reshape(WIDTH, 3))
    return x @ x, x @ public, matrix(x) @ public, matrix(x) @ matrix(x), public.T @ x


CASES = {
    **{name: getattr(lax, name) for name in UNARY.split()},
    **{name: lambda x, name=name: getattr(lax, name)(x, x[::-1]) for name in BINARY.split()},
    **{name: lambda x, name=name: allowed.find(name).bind(bits(x), bits(x[::-1])) for name in OF_BITS.split()},
    **{name: lambda x, name=name: allowed.find(name).bind(x, x[::-1]) for name in BOUND.split()},
    **{name: _scatter(method) for name, method in SCATTERED.items()},
    "bitcast_convert_type": bits,
    "clamp": lambda x: lax.clamp(x[0], x, x[1]),
    "clz": lambda x: lax.clz(bits(x)),
    "complex": lambda x: lax.complex(x, x[::-1]),
    "conj": lambda x: lax.conj(lax.complex(x, x[::-1])),
    "convert_element_type": lambda x: [x.astype(kind) for kind in (jnp.int8, jnp.uint32, jnp.bfloat16, bool)],
    "copy": lambda x: jnp.array(x, copy=True),
    "imag": lambda x: lax.imag(jnp.exp(lax.complex(x, x[::-1]))),
    "integer_pow": lambda x: (x**3, x**-2),
    "name": lambda x: checkpoint_name(x, "x"),
    "not": lambda x: ~bits(x),
    "population_count": lambda x: lax.population_count(bits(x)),
    "real": lambda x: lax.real(jnp.sqrt(lax.complex(x, x[::-1]))),
    "reduce_precision": lambda x: lax.reduce_precision(x, 5, 7),
    "select_n": lambda x: jnp.where(x > x[::-1], x, 1.0),
    "broadcast_in_dim": lambda x: jnp.broadcast_to(x, (2, WIDTH)),
    "concatenate": lambda x: jnp.concatenate([x, x[:2]]),
    "dynamic_slice": lambda x: lax.dynamic_slice(x, places(x)[:1], (3,)),
    "dynamic_update_slice": lambda x: lax.dynamic_update_slice(x, x[:2], places(x)[:1]),
    "gather": lambda x: [x.at[places(x[::-1])].get(mode=mode) for mode in (*MODES, "fill")],
    "iota": lambda x: x + lax.iota(jnp.float32, WIDTH),
    "pad": lambda x: lax.pad(x, x[0], [(1, 2, 1)]),
    "reshape": lambda x: x.reshape(2, 3),
    "rev": lambda x: lax.rev(x, (0,)),
    "slice": lambda x: lax.slice(x, (1,), (5,), (2,)),
    "split": lambda x: lax.split(x, [2, 4]),
    "squeeze": lambda x: lax.squeeze(x.reshape(1, WIDTH), (0,)),
    "stack": lambda x: jnp.stack([x, x]),
    "tile": lambda x: jnp.tile(x, 2),
    "transpose": lambda x: x.reshape(2, 3).T,
    "unstack": lambda x: jnp.unstack(x.reshape(2, 3)),
    "argmax": jnp.argmax,
    "argmin": jnp.argmin,
    "cumlogsumexp": lax.cumlogsumexp,
    "cummax": lax.cummax,
    "cummin": lax.cummin,
    "cumprod": lax.cumprod,
    "cumsum": lax.cumsum,
    "dot_general": _products,
    "reduce_and": lambda x: jnp.all(x > 0.6),
    "reduce_max": jnp.max,
    "reduce_min": jnp.min,
    "reduce_or": lambda x: jnp.any(x > 1.9),
    "reduce_prod": jnp.prod,
    "reduce_sum": jnp.sum,
    "reduce_window_max": lambda x: lax.reduce_window(x, -np.float32(np.inf), lax.max, (3,), (1,), "SAME"),
    "reduce_window_min": lambda x: lax.reduce_window(x, np.float32(np.inf), lax.min, (3,), (1,), "SAME"),
    "reduce_window_sum": lambda x: lax.reduce_window(x, np.float32(0), lax.add, (3,), (1,), "SAME"),
    "reduce_xor": lambda x: lax.reduce_xor(bits(x), (0,)),
    "sort": lambda x: (lax.sort((x, x[::-1]), num_keys=2), jnp.argsort(x), jnp.sort(matrix(x), axis=0)),
    "top_k": lambda x: lax.top_k(x, 3),
    "cholesky": lambda x: lax.linalg.cholesky(matrix(x)),
    "triangular_solve": lambda x: _solve(matrix(x), x[:, None]),
    "cond": lambda x: lax.cond(x[0] > 1, jnp.sin, jnp.cos, x),
    "custom_jvp_call": jax.nn.relu,
    "custom_vjp_call": with_own_rule,
    "jit": jax.jit(jnp.sin),
    "platform_index": lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.sin),
    "remat": jax.checkpoint(lambda x: jnp.sin(jnp.exp(x))),
    "scan": lambda x: lax.scan(lambda c, v: (0.5 * c + v, c * v), x[0], x),
}
"""A function of one record for each listed operation, in whose jaxpr the operation stands."""

TRIANGLE = np.tri(WIDTH, dtype=np.float32)
ALONE = {
    "cholesky": CASES["cholesky"],
    "cholesky of a singular matrix": lambda x: lax.linalg.cholesky(jnp.outer(x, x)),
    "triangular_solve": CASES["triangular_solve"],
    "triangular_solve with a public matrix": lambda x: _solve(jnp.asarray(TRIANGLE), x[:, None]),
    "triangular_solve with a public side": lambda x: _solve(matrix(x), jnp.asarray(TRIANGLE)),
}
"""Checked one at a time: on a CPU of few cores, jaxlib 0.10.1 can hang where two batches of them run side by side."""


def incomplete_beta(x):
    """What must be noticed: JAX computes all lanes in one loop, until none of them is unconverged."""
    return lax.betainc(5 + x, 5 + x[::-1], jnp.full(WIDTH, 0.5))


def until_all_are_small(x):
    """The same in the open: one loop for all lanes, which halves every lane while any of them is large."""

    @jax.custom_batching.custom_vmap
    def halved(x):
        return x

    @halved.def_vmap
    def _(size, batched, x):  # noqa: ARG001
        return lax.while_loop(lambda y: jnp.any((jnp.abs(y) > 1) & jnp.isfinite(y)), lambda y: y * 0.5, x), True

    return halved(x)


def easy(size):
    """A batch of so many easy records, nearly alike."""
    wobble = 1 + 1e-3 * np.random.default_rng(size).uniform(size=(size, WIDTH))
    return (EASY * wobble).astype(np.float32)


def _lanes(results):
    """The bits of all results, one row a lane."""
    leaves = [np.ascontiguousarray(leaf) for leaf in jax.tree.leaves(results)]
    return np.concatenate([leaf.reshape(len(leaf), -1).view(np.uint8).reshape(len(leaf), -1) for leaf in leaves], 1)


def changed(cases, size, extremes=EXTREMES):
    """The names of the cases in which replacing one record changes a bit of another, or asking twice does."""
    base = easy(size)
    batched = jax.jit(jax.vmap(lambda x: {name: case(x) for name, case in cases.items()})).lower(base).compile()
    before = {name: _lanes(results) for name, results in batched(base).items()}
    found = set()
    for place in sorted({0, size // 2, size - 1}):
        for extreme in (base[place], *extremes):
            batch = base.copy()
            batch[place] = extreme
            for name, results in batched(batch).items():
                same = (_lanes(results) == before[name]).all(1)
                same[place] = True
                if not same.all():
                    found.add(name)
    return found


def together():
    """The cases of the operations that the installed JAX has, less those that are checked one at a time."""
    return {name: case for name, case in CASES.items() if allowed.find(name) is not None and name not in ALONE}


def main():
    """Print what changes on this device, each operation compiled by itself."""
    others = {
        "regularized_incomplete_beta": incomplete_beta,
        "eigh": lambda x: jnp.linalg.eigh(matrix(x)),
        "svd": lambda x: jnp.linalg.svd(matrix(x)),
        "qr": lambda x: jnp.linalg.qr(matrix(x)),
        "lu": lambda x: jax.scipy.linalg.lu_factor(matrix(x)),
        "tridiagonal_solve": lambda x: lax.linalg.tridiagonal_solve(x, x, x, x[:, None]),
        "fft": lambda x: (jnp.fft.fft(x), jnp.fft.rfft(x)),
        "conv_general_dilated": lambda x: (jnp.convolve(x, x), jnp.convolve(x, EASY[:3])),
    }
    print(f"JAX {jax.__version__} on {jax.default_backend()}: {jax.devices()[0].device_kind}")  # noqa: T201
    for kind, cases in (("listed", together() | ALONE), ("not listed", others)):
        for size in SIZES:
            bad = sorted(name for name, case in cases.items() if changed({name: case}, size))
            told = f"{kind}, batches of {size}: {len(cases)} operations, changed: {' '.join(bad) or 'none'}"
            print(told, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
