"""Is `fit` as near as its peers? Of peers the best setting with hindsight, and one that was chosen without records.

Repeats of `fit` and of a peer have noise of their own, so the two are compared as independent samples: a one-sided
Mann-Whitney test says whether one is nearer, and a bootstrap how sure the ratio of their medians is.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

CELL = ["table", "epsilon"]
NEARER, AS_NEAR, FURTHER = "nearer", "as near", "further"


def with_hindsight(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `fit`, and of every peer those of its best setting, table by table and epsilon by epsilon."""
    peers = table[table["method"] != "fit"]
    kept = [table[table["method"] == "fit"]]
    for _, one in peers.groupby(["table", "method", "epsilon"], sort=False):
        best = one.groupby("setting")["median_error"].median().idxmin()
        kept.append(one[one["setting"] == best])
    return pd.concat(kept)


def without_hindsight(table: pd.DataFrame, defaults: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows of `fit`, and of every peer those of its default, or of its only setting."""
    several = table.groupby(["table", "method"])["setting"].transform("nunique") > 1
    return table[(table["method"] == "fit") | ~several | (table["setting"] == table["method"].map(defaults))]


def verdicts(table: pd.DataFrame, level: float, num_resamples: int) -> pd.DataFrame:
    """Return one row a table and epsilon: `fit` beside the best of the peers that the table has.

    Args:
        table: rows of `fit` and of one setting of every peer.
        level: of the test, cell by cell. Where the two have the same law, so many cells are said to be further.
        num_resamples: of the bootstrap.
    """
    return pd.DataFrame(_verdicts(table, level, num_resamples))


def _verdicts(table: pd.DataFrame, level: float, num_resamples: int) -> Iterator[dict[str, Any]]:
    for (name, epsilon), own in table.groupby(CELL, sort=False):
        fits, peers = own[own["method"] == "fit"], own[own["method"] != "fit"]
        if fits.empty or peers.empty:
            continue
        best = peers.groupby("method", sort=False)["median_error"].median().idxmin()
        other = peers[peers["method"] == best]
        ours, theirs = fits["median_error"].to_numpy(), other["median_error"].to_numpy()
        further, nearer = (further_by_chance(*pair) for pair in ((ours, theirs), (theirs, ours)))
        yield {
            "table": name,
            "epsilon": epsilon,
            "fit": float(np.median(ours)),
            "peer": best,
            "setting": other["setting"].iloc[0],
            "of_peer": float(np.median(theirs)),
            **ratio(ours, theirs, num_resamples),
            "p_further": further,
            "p_nearer": nearer,
            "p_further_largest": further_by_chance(fits["largest_error"].to_numpy(), other["largest_error"].to_numpy()),
            "verdict": FURTHER if further < level else NEARER if nearer < level else AS_NEAR,
            "announced": bool(fits["announced"].all()),
            "said_bad": float((fits["said"] == "bad").mean()) if "said" in fits else 0.0,
            "repeats": min(len(ours), len(theirs)),
        }


def further_by_chance(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the probability of errors so much larger, were those of both of one law: small says that ours are."""
    return float(stats.mannwhitneyu(ours, theirs, alternative="greater").pvalue)


def ratio(ours: np.ndarray, theirs: np.ndarray, num_resamples: int) -> dict[str, float]:
    """Return the ratio of the medians and its 95 % interval over resamples of the repeats."""
    rng = np.random.default_rng(0)
    first, second = (np.median(rng.choice(each, (num_resamples, len(each))), axis=1) for each in (ours, theirs))
    with np.errstate(all="ignore"):
        low, high = np.nanquantile(first / second, (0.025, 0.975))
        return {"ratio": float(np.median(ours) / np.median(theirs)), "ratio_low": float(low), "ratio_high": float(high)}


def holm(p_values: np.ndarray, level: float) -> np.ndarray:
    """Return which are significant at a level for all of them together (Holm, 1979)."""
    order = np.argsort(p_values)
    passes = p_values[order] < level / (len(p_values) - np.arange(len(p_values)))
    found = np.zeros(len(p_values), bool)
    found[order[: int(np.argmin(np.append(passes, False)))]] = True
    return found
