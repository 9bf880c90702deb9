"""What a linear predictor is, in words: how coefficients, differences and ratios are to be read."""

from typing import NamedTuple


class Link(NamedTuple):
    """A link function.

    Attributes:
        name: as other packages call it.
        predictor: what the linear predictor is.
        ratio: what the exponential of a difference of predictors is; empty where it means nothing.
        ratios: several of them.
    """

    name: str
    predictor: str = ""
    ratio: str = ""
    ratios: str = ""


IDENTITY = Link("identity")
PROBIT = Link("probit")
LOGIT = Link("logit", "log-odds", "odds ratio", "odds ratios")
LOG = Link("log", "log of the mean", "ratio of means", "ratios of means")
LOG_RATE = Link("log", "log of the rate", "ratio of rates", "ratios of rates")
LOG_MEDIAN = Link("log", "log of the median", "ratio of medians", "ratios of medians")
TIME = Link("log", "log of the time", "time ratio", "time ratios")
HAZARD = Link("log", "log of the hazard", "hazard ratio", "hazard ratios")
