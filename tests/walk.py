"""Follows a row through the library: which files a default fit runs through, and how often it comes back to one.

    python tests/walk.py            # fits a small table, prints the walk by package, and draws docs/figures/imports.png
    python tests/walk.py --files    # every file, in the order in which it is met

A function is met when it is first called; the walk is the sequence of files in which functions are met. A *way back* is
a change to a file that was left before. Calls while modules are imported do not count, nor do those of other libraries.
Comprehensions are part of the function in which they stand: Python before 3.12 calls them, a reader does not.
"""

import argparse
import ast
import csv
import sys
import tempfile
import threading
import tomllib
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "src" / "dpmcmc"
FIGURE = ROOT / "docs" / "figures" / "imports.png"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
LAYERS = tuple(tuple(layer.replace("(", "").replace(")", "").split(" | ")) for layer in CONTRACTS[0]["layers"])
"""The packages, the uppermost first."""


PART_OF_A_FUNCTION = frozenset({"<module>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"})
"""What the interpreter calls and nobody wrote as a function."""


class Walk(NamedTuple):
    """Files, one for each function in the order in which it was first called."""

    met: list[str]

    @property
    def files(self) -> list[str]:
        """Every file once, in the order in which it was met."""
        return list(dict.fromkeys(self.met))

    @property
    def changes(self) -> int:
        """How often the walk goes from one file to another."""
        return sum(one != other for one, other in pairwise(self.met))

    @property
    def ways_back(self) -> int:
        """How often it goes to a file that it had left."""
        seen: set[str] = set()
        found = 0
        for one, other in pairwise(self.met):
            seen.add(one)
            found += one != other and other in seen
        return found

    @property
    def by_package(self) -> dict[str, int]:
        """Files by package."""
        return dict(Counter(package(file) for file in self.files).most_common())


class Follower:
    """Notes every function of the library when it is first called, in all threads."""

    def __init__(self) -> None:
        self.met: list[str] = []
        self._known: set[CodeType] = set()
        self._prefix = f"{LIBRARY}/"

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Take one event of the interpreter."""
        code = frame.f_code
        if event != "call" or code in self._known:
            return
        self._known.add(code)
        name = code.co_filename
        if (
            name.startswith(self._prefix)
            and name.endswith(".py")
            and code.co_name not in PART_OF_A_FUNCTION
            and not _is_importing(frame)
        ):
            self.met.append(name.removeprefix(self._prefix))

    def __enter__(self) -> "Follower":
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module body is on the stack above: what it calls, decorators say, is part of importing."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return str(frame.f_globals.get("__name__", "")).startswith("dpmcmc")
        frame = frame.f_back
    return False


def walk_of_a_default_fit(num_rows: int = 2_000) -> Walk:
    """Fit a logistic regression to a CSV file with everything left at its default, and write the report."""
    import dpmcmc as dp

    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "patients.csv"
        with table.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(("age", "smoker", "readmitted"))
            rows.writerows((18 + i % 70, i % 3 == 0, (i * 7919) % 11 < 4 + (i % 3 == 0)) for i in range(num_rows))
        columns = {"age": {"kind": "number", "lower": 18, "upper": 90}}
        columns |= {name: {"kind": "boolean"} for name in ("smoker", "readmitted")}
        follower = Follower()
        with follower:
            ledger = dp.Ledger.create(f"sqlite:///{folder}/ledger.db")
            ledger.register("patients", dp.Budget(4.0, 1e-6), dp.Adjacency.REPLACE_ONE)
            data = dp.PrivateData.from_table(str(table), schema={"columns": columns}, ledger=ledger)
            posterior = dp.fit("readmitted ~ age + smoker", data, family="bernoulli", epsilon=4.0, progress=False)
            posterior.report(f"{folder}/report.html")
        return Walk(follower.met)


def package(file: str) -> str:
    """Return the package, or the module at the top, that a file belongs to."""
    return file.split("/")[0].removesuffix(".py")


def imports() -> dict[tuple[str, str], int]:
    """Return how many files of one package import from another, anywhere in them."""
    found: set[tuple[str, str, str]] = set()
    for path in LIBRARY.rglob("*.py"):
        here = path.relative_to(LIBRARY).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpmcmc"):
                names = [node.module] if node.module != "dpmcmc" else [f"dpmcmc.{one.name}" for one in node.names]
            elif isinstance(node, ast.Import):
                names = [one.name for one in node.names if one.name.startswith("dpmcmc.")]
            found |= {(here, package(here), name.split(".")[1]) for name in names if name and "." in name}
    known = {name for layer in LAYERS for name in layer}
    edges = Counter((source, target) for _, source, target in found if source != target)
    return {edge: count for edge, count in edges.items() if set(edge) <= known}


def draw(walk: Walk, path: Path = FIGURE) -> None:
    """Draw the packages in their layers: arrows are imports, numbers files on the default road and in all."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    edges = imports()
    figure, axes = plt.subplots(figsize=(10, 11), layout="constrained")
    places = {
        name: ((i + 1) / (len(layer) + 1) * 10 + (0.8 if depth % 2 else -0.8) * (len(layer) == 1), -float(depth))
        for depth, layer in enumerate(LAYERS)
        for i, name in enumerate(layer)
    }
    most = max(edges.values())
    for (source, target), count in sorted(edges.items(), key=lambda edge: edge[1]):
        arrow = {
            "arrowstyle": "-|>",
            "color": "tab:blue" if places[source][1] > places[target][1] else "tab:red",
            "alpha": 0.2 + 0.5 * count / most,
            "linewidth": 0.5 + 3 * count / most,
            "shrinkA": 14,
            "shrinkB": 14,
            "connectionstyle": "arc3,rad=0.12",
        }
        axes.annotate("", places[target], places[source], arrowprops=arrow)
    for name, (x, y) in places.items():
        files = list((LIBRARY / name).rglob("*.py")) or [LIBRARY / f"{name}.py"]
        on_road = walk.by_package.get(name, 0)
        label = f"{name}\n{on_road} of {len(files)}" if on_road else f"{name}\n{len(files)}"
        box = {"boxstyle": "round", "facecolor": "#dbe7f5" if on_road else "white", "edgecolor": "0.4"}
        axes.text(x, y, label, ha="center", va="center", fontsize=9, bbox=box)
    axes.set(xlim=(-0.2, 10.2), ylim=(-len(LAYERS) + 0.4, 0.6))
    axes.axis("off")
    total = len(list(LIBRARY.rglob("*.py")))
    axes.set_title(
        f"Packages of dpmcmc, in layers. Shaded: on the road of a default fit and its report,\n{len(walk.files)} of "
        f"{total} files. Arrows: who imports whom, the wider the more files do.",
        fontsize=11,
    )
    figure.savefig(path, dpi=110)


def main() -> None:
    """Walk, tell, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true", help="print every file")
    walk = walk_of_a_default_fit()
    if parser.parse_args().files:
        print("\n".join(walk.files))  # noqa: T201
    print(f"{len(walk.files)} files, {walk.changes} changes of file, {walk.ways_back} ways back")  # noqa: T201
    print(", ".join(f"{name} {count}" for name, count in walk.by_package.items()))  # noqa: T201
    draw(walk)


if __name__ == "__main__":
    main()
