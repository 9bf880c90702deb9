"""Which tests are long: write tests/long.txt from the times of a run.

    pytest -m "slow or not slow" --junitxml=times.xml ...
    python tests/long.py times.xml

`make test` keeps the quickest case of every test function, and all cases that take less than `CASE` seconds; of what
guards privacy, where cases are mechanisms and attacks, those of less than `CASE_OF_PRIVACY`. The others run in `make
test-slow`, and so do functions of which even the quickest case takes more than their folder allows (`FUNCTION`), unless
they are the only ones of what they show; of every file at least the quickest stays, unless it takes more than `MOST`.
Seconds are those of an idle machine. A run of `make test` alone will do, too: what it did not run stays as it was.
"""

import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

CASE, CASE_OF_PRIVACY = 0.4, 0.8
FUNCTION = {"statistical": 3.0, "exact": 3.0, "golden": 3.0, "contract": 8.0, "faults": 10.0}
MOST = 15.0
ONLY = ("test_everyday_tables", "test_misfit", "test_stress_rules")
FOLDER = Path(__file__).parent
LIST = FOLDER / "long.txt"


def long_ones(times: Path, before: list[str]) -> list[str]:
    """Return the long tests of a run, as pytest names them, and those of before that were not run."""
    functions: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for case in ElementTree.parse(times).iter("testcase"):  # noqa: S314 (pytest wrote it)
        name = f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}"
        functions[name.split("[")[0]].append((float(case.attrib["time"]), name))
    run = {name for cases in functions.values() for _, name in cases}
    found = [name for name in before if name not in run]
    quickest_of_files: dict[str, float] = {}
    for name, cases in sorted(functions.items(), key=lambda item: min(item[1])):
        quickest, *others = sorted(cases)
        is_first = quickest[0] == quickest_of_files.setdefault(name.split("::")[0], quickest[0])
        most = FUNCTION.get(name.split("/")[1], float("inf"))
        if quickest[0] > (MOST if is_first or any(only in name for only in ONLY) else most) and most < float("inf"):
            found.append(quickest[1])
        most = CASE_OF_PRIVACY if name.startswith(("tests/privacy/", "tests/faults/")) else CASE
        found += [case for seconds, case in others if seconds > most]
    return sorted(found)


if __name__ == "__main__":
    LIST.write_text("\n".join(long_ones(Path(sys.argv[1]), LIST.read_text().splitlines())) + "\n")
