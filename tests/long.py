"""Which tests are long: write tests/long.txt from the times of a whole run.

    pytest -m "slow or not slow" --junitxml=times.xml ...
    python tests/long.py times.xml

`make test` keeps the quickest case of every test function, and all cases that take less than `CASE` seconds; of what
guards privacy, where cases are mechanisms and attacks, those of less than `CASE_OF_PRIVACY`. The others run in `make
test-slow`, and so do statistical tests of which even the quickest case takes more than `FUNCTION` seconds, unless they
are the only ones of what they show. Seconds are those of an idle machine.
"""

import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

CASE, CASE_OF_PRIVACY, FUNCTION = 0.6, 1.2, 12.0
ONLY = ("test_everyday_tables", "test_misfit", "test_stress_rules")
FOLDER = Path(__file__).parent


def long_ones(times: Path) -> list[str]:
    """Return the long tests of a run, as pytest names them."""
    functions: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for case in ElementTree.parse(times).iter("testcase"):  # noqa: S314 (pytest wrote it)
        name = f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}"
        functions[name.split("[")[0]].append((float(case.attrib["time"]), name))
    found: list[str] = []
    for name, cases in functions.items():
        quickest, *others = sorted(cases)
        if quickest[0] > FUNCTION and "/statistical/" in name and not any(only in name for only in ONLY):
            found.append(quickest[1])
        most = CASE_OF_PRIVACY if name.startswith(("tests/privacy/", "tests/faults/")) else CASE
        found += [case for seconds, case in others if seconds > most]
    return sorted(found)


if __name__ == "__main__":
    (FOLDER / "long.txt").write_text("\n".join(long_ones(Path(sys.argv[1]))) + "\n")
