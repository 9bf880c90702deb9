"""What a result is worth: a verdict with its reasons, for the whole and for each parameter."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpmcmc.diagnostics.convergence import MINIMUM_DRAWS, rhat
from dpmcmc.diagnostics.summary import coordinates
from dpmcmc.html import card

GRADES = ("good", "fair", "bad")

FAIR_ERROR, BAD_ERROR = 0.5, 1.0
"""Predicted errors, in standard deviations of the posterior without privacy, from which a result is fair or bad."""

SAME_WORDS = 4
"""Reasons that begin with as many words alike say the same: that the prior makes up most, of one or of several."""


@dataclass(frozen=True)
class Grade:
    """How good one parameter is.

    Attributes:
        verdict: ``good``, ``fair`` or ``bad``.
        reasons: sentences that say why it is not good.
        shares: of its variance: from ``data``, from the noise of ``privacy``, from the ``prior``.
    """

    verdict: str = "good"
    reasons: tuple[str, ...] = ()
    shares: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, repr=False)
class Quality:
    """How good a posterior is.

    Attributes:
        verdict: ``good``, ``fair`` or ``bad``.
        reasons: sentences that say why it is not good.
        parameters: the same for each parameter, by its name in the summary.
        predicted_error: by how many standard deviations of the posterior without privacy its means are off, about;
            None where nothing says so.
    """

    verdict: str = "good"
    reasons: tuple[str, ...] = ()
    parameters: Mapping[str, Grade] = field(default_factory=dict[str, Grade])
    predicted_error: float | None = None

    def to_plain(self) -> dict[str, Any]:
        """Return it in plain values, for files."""
        plain: dict[str, Any] = {
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "parameters": {
                name: {"verdict": grade.verdict, "reasons": list(grade.reasons), "shares": dict(grade.shares)}
                for name, grade in self.parameters.items()
            },
        }
        return plain if self.predicted_error is None else {**plain, "predicted_error": self.predicted_error}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "Quality":
        """Read it back."""
        return cls(
            plain["verdict"],
            tuple(plain["reasons"]),
            {
                name: Grade(grade["verdict"], tuple(grade["reasons"]), dict(grade["shares"]))
                for name, grade in plain["parameters"].items()
            },
            plain.get("predicted_error"),
        )

    @property
    def words(self) -> str:
        """The verdict and its reasons in a few lines."""
        marked: dict[str, list[str]] = {}
        for name, grade in self.parameters.items():
            if grade.reasons:
                marked.setdefault(" ".join(grade.reasons), []).append(name)
        lines = [f"{', '.join(names)}: {each}" for each, names in marked.items() if not self._says(each, names)]
        return "\n".join([f"Quality: {self.verdict}.", *self.reasons, *lines])

    def _says(self, reason: str, names: Sequence[str]) -> bool:
        """Say whether a reason of the whole begins like that of some parameters, and names them."""
        head = " ".join(reason.split()[:SAME_WORDS])
        return any(one.startswith(head) and all(map(one.count, names)) for one in self.reasons)

    def __repr__(self) -> str:
        return self.words

    def _repr_html_(self) -> str:
        """Show it in a notebook."""
        first, *reasons = self.words.splitlines()
        return card(first, [], notes=reasons)


def worst(verdicts: Iterable[str]) -> str:
    """Return the worst of some verdicts; good if there are none."""
    return max(verdicts, key=GRADES.index, default="good")


FAIR_R_HAT, BAD_R_HAT = 1.05, 1.1
"""R-hats from which on chains are fair, or have not met."""


def judge_chains(draws: Mapping[str, np.ndarray]) -> Quality:
    """Return what chains alone tell: whether they are finite, moved, and met.

    Args:
        draws: by parameter, with the axes (chain, draw, ...).
    """
    columns = coordinates(draws)
    chains, length = next(iter(columns.values())).shape
    lost = [name for name, values in columns.items() if not np.isfinite(values).all()]
    if lost:
        return Quality("bad", (f"Draws are not finite: {', '.join(lost)}.",), {name: Grade("bad") for name in lost})
    stuck = [name for name, values in columns.items() if length > 1 and np.ptp(values) == 0]
    if stuck:
        return Quality("bad", (f"The chains never moved: {', '.join(stuck)}.",), {name: Grade("bad") for name in stuck})
    if chains < 2 or length < MINIMUM_DRAWS:
        return Quality("fair", ("One chain, or so few draws, cannot show whether they have converged.",))
    values = {name: float(value) for name, value in rhat(columns).items()}
    grades = {name: _met(value) for name, value in values.items()}
    verdict = worst(grade.verdict for grade in grades.values())
    if verdict == "good":
        return Quality("good", (), grades)
    name, value = max(values.items(), key=lambda each: each[1])
    return Quality(verdict, (f"The chains have not converged: R-hat of {name} is {value:.2f}.",), grades)


def _met(r_hat: float) -> Grade:
    if r_hat <= FAIR_R_HAT:
        return Grade()
    return Grade("fair" if r_hat <= BAD_R_HAT else "bad", (f"R-hat is {r_hat:.2f}.",))


def both(first: Quality, second: Quality) -> Quality:
    """Return what two judges say together."""
    names = {**first.parameters, **second.parameters}
    none = Grade()
    grades = {
        name: Grade(
            worst((first.parameters.get(name, none).verdict, second.parameters.get(name, none).verdict)),
            (*first.parameters.get(name, none).reasons, *second.parameters.get(name, none).reasons),
            {**first.parameters.get(name, none).shares, **second.parameters.get(name, none).shares},
        )
        for name in names
    }
    error = first.predicted_error if second.predicted_error is None else second.predicted_error
    return Quality(worst((first.verdict, second.verdict)), (*first.reasons, *second.reasons), grades, error)
