"""DP-SGLD on MNIST: a chain of the convolutional network, its accuracy and its calibration, epoch by epoch.

    python experiments/dp_sgld_2019/mnist_chain.py --output experiments/dp_sgld_2019/results/mnist_full.json

runs all readings on all 60,000 images. It needs jax, numpy and scipy alone, so that a machine with an accelerator and
nothing else installed can do it, and the file examples/cache/mnist.npz, which
``python -m experiments.dp_sgld_2019.mnist`` makes. ``dpmcmc reproduce dp-sgld/table-1`` reads what it wrote.
"""

import argparse
import json
import sys
import time
import types
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

if __name__ == "__main__":
    # the samplers need none of the packages that the accountants and the other experiments do: import them without
    root = Path(__file__).parents[2]
    sys.path[:0] = [str(root), str(root / "src")]
    for name, folder in {
        "dpmcmc.accounting": "src/dpmcmc/accounting",
        "dpmcmc.model": "src/dpmcmc/model",
        "dpmcmc.run": "src/dpmcmc/run",
        "experiments.dp_sgld_2019": "experiments/dp_sgld_2019",
    }.items():
        package = types.ModuleType(name)
        package.__path__ = [str(root / folder)]
        sys.modules[name] = package
    sys.modules.setdefault("tomli_w", types.ModuleType("tomli_w"))  # writes schemas to files; none is written here

from experiments.dp_sgld_2019 import mnist, network

READINGS = ("published", "corrected", "plain")
SEGMENTS_AN_EPOCH = 4


def kernel_and_model(reading: str, c: dict[str, Any], num_records: int) -> tuple[Any, Any]:
    """Return the sampler in one reading: drift eta / N times the gradient; noise eta / N published, 2 eta / N right."""
    from dpmcmc.enclave.batches.sampling import Poisson
    from dpmcmc.enclave.mechanisms.exact import ExactSubsampledGradientSum
    from dpmcmc.enclave.mechanisms.subsampled_gradient import SubsampledGradientSum
    from dpmcmc.kernels.dp_sgld import dp_sgld
    from dpmcmc.model.model import Model

    rate, eta = c["batch_size"] / num_records, c["step_size"] / num_records
    model = Model(network.log_prior, network.log_likelihood)
    if reading == "plain":
        return dp_sgld(ExactSubsampledGradientSum(Poisson(rate)), step_size=2 * eta), model
    if reading == "corrected":
        return dp_sgld(SubsampledGradientSum.for_sgld(c["clip"], rate, 2 * eta), step_size=2 * eta), model
    half = Model(lambda position: 2 * network.log_prior(position), network.log_likelihood, temperature=2.0)
    return dp_sgld(SubsampledGradientSum.for_sgld(2 * c["clip"], rate, eta), step_size=eta), half


def run(c: dict[str, Any]) -> list[dict[str, Any]]:
    """Run one chain and return a row an epoch: of the last draw alone, and of the draws of the second half so far."""
    from dpmcmc.enclave.data import PrivateData
    from dpmcmc.run.program import Advance, Begin, Layout

    data = mnist.load(c["num_train"], c["num_test"])
    size = len(data["train_labels"])
    records = {"image": data["train_images"], "label": data["train_labels"]}
    bounds = {"image": (0.0, 1.0), "label": (0.0, 9.0)}
    vault = PrivateData.without_guarantee(records, bounds=bounds, noise="float")
    kernel, model = kernel_and_model(c["reading"], c, size)
    first = jnp.asarray(network.start(np.random.default_rng(c["seed"])))[None]
    layout = Layout.of(first[0])
    of_start, of_steps = jax.random.split(jax.random.key(c["seed"]))
    states = vault.run(Begin(kernel, layout), first, of_start[None], model=model, insecure_seed=1)
    length = max(1, round(size / c["batch_size"] / SEGMENTS_AN_EPOCH))
    predict = jax.jit(lambda position, images: jax.nn.softmax(network.scores(position, images)))
    total = np.zeros((len(data["test_labels"]), 10))
    rows, counted, started = [], 0, time.perf_counter()
    for index in range(c["epochs"] * SEGMENTS_AN_EPOCH):
        program = Advance(kernel, layout, length)
        states, _ = vault.run(
            program, states, of_steps[None], jnp.uint32(index * length), model=model, insecure_seed=index + 2
        )
        position = states.position[0]
        parts = np.array_split(data["test_images"], max(1, len(total) // 1000))
        chances = np.concatenate([np.asarray(predict(position, part), np.float64) for part in parts])
        if index >= c["epochs"] * SEGMENTS_AN_EPOCH // 2:
            total, counted = total + chances, counted + 1
        if (index + 1) % SEGMENTS_AN_EPOCH == 0:
            row = {"epoch": (index + 1) // SEGMENTS_AN_EPOCH, "steps": (index + 1) * length}
            row |= {f"draw_{name}": value for name, value in quality(chances, data["test_labels"]).items()}
            if counted:
                row |= quality(total / counted, data["test_labels"])
            rows.append(row | {"seconds": time.perf_counter() - started})
            print(c["reading"], row, flush=True)  # noqa: T201  # it runs long, far from here
    return rows


def quality(chances: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Return accuracy, expected calibration error (15 bins of confidence) and mean log-likelihood."""
    sure, right = chances.max(axis=1), chances.argmax(axis=1) == labels
    bins = np.minimum((sure * 15).astype(int), 14)
    gaps = [abs(np.mean(right[bins == one]) - np.mean(sure[bins == one])) * np.mean(bins == one) for one in set(bins)]
    chosen = chances[np.arange(len(labels)), labels]
    log = float(np.mean(np.log(np.maximum(chosen, 1e-12))))
    return {"accuracy": float(np.mean(right)), "ece": float(sum(gaps)), "log_likelihood": log}


def main() -> None:
    """Run all readings at full size, unless told otherwise, and write them down after each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--train", type=int, default=None)
    parser.add_argument("--readings", nargs="+", default=list(READINGS))
    given = parser.parse_args()
    fixed = {"batch_size": 128, "step_size": 0.3, "clip": 0.3, "seed": 2019, "num_train": given.train, "num_test": None}
    found = []
    for reading in given.readings:
        cell = fixed | {"reading": reading, "epochs": given.epochs}
        found += [cell | row for row in run(cell)]
        about = {"device": str(jax.devices()[0].device_kind), "num_weights": network.DIMENSION}
        given.output.write_text(json.dumps({"about": about, "rows": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
