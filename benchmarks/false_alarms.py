"""How often the small version of an audit raises a false alarm: a thousand repeats of it, on the code as it is.

python benchmarks/false_alarms.py --repeats 1000

The stated rate is 1e-6 for each bound. One pair is compiled once and audited again and again, with fresh keys.
"""

import argparse
import time

from dpmcmc.accounting import epsilon
from dpmcmc.audits import catalogue
from dpmcmc.audits.audit import CONFIDENCE_ERROR, Running, Tally, lower_under_hypothesis
from dpmcmc.audits.bounds import lower_without_assumption

DELTA = 1e-6


def main() -> None:
    """Repeat, and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5000, help="of each table, in each repeat")
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    pair = catalogue.counts(1.0, DELTA, catalogue.REPLACE, "exact")
    claimed, running, start = epsilon(pair.price(), DELTA), Running(pair, options.runs // 5), time.perf_counter()
    alarms = done = 0
    while done < options.repeats and time.perf_counter() - start < options.seconds:
        running.tally, running.rounds = Tally(), 0
        tally = running.go_on(options.runs)
        sides = (tally.chosen_on[0], tally.chosen_on[1]), (tally.counted[0], tally.counted[1])
        free = lower_without_assumption(*sides, DELTA, CONFIDENCE_ERROR)
        alarms += max(free, lower_under_hypothesis(pair, tally, DELTA, CONFIDENCE_ERROR)) > claimed
        done += 1
    print(f"{alarms} false alarms in {done} repeats of {options.runs} runs of each table")
    raise SystemExit(bool(alarms))


if __name__ == "__main__":
    main()
