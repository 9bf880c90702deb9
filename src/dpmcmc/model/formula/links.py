"""What the linear predictor of a family is, in words: how coefficients, differences and ratios are to be read."""

from typing import NamedTuple

from dpmcmc.model.formula.families.family import Family


class Link(NamedTuple):
    """A link function.

    Attributes:
        name: as other packages call it.
        predictor: what the linear predictor is.
        ratio: what the exponential of a difference of predictors is; empty where it means nothing.
        ratios: several of them.
    """

    name: str
    predictor: str
    ratio: str
    ratios: str


IDENTITY = Link("identity", "", "", "")
LOGIT = Link("logit", "log-odds", "odds ratio", "odds ratios")
LOG = Link("log", "log of the mean", "ratio of means", "ratios of means")
TIME = Link("log", "log of the time", "time ratio", "time ratios")
HAZARD = Link("log", "log of the hazard", "hazard ratio", "hazard ratios")

_LINKS = {
    "gaussian": IDENTITY,
    "student_t": IDENTITY,
    "bernoulli": LOGIT,
    "binomial": LOGIT,
    "categorical": LOGIT,
    "ordinal": LOGIT,
    "poisson": LOG,
    "negative_binomial": LOG,
}


def link_of(family: Family) -> Link:
    """Return the link of a family: as the family itself states it, or as it is known here."""
    return {"time": TIME, "hazard": HAZARD}.get(family.link) or _LINKS.get(family.name, IDENTITY)
