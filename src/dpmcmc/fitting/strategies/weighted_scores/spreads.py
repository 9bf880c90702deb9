"""The standard deviations of random intercepts while a pilot runs."""

import numpy as np

from dpmcmc.fitting.strategies.weighted_scores.regression import Regression
from dpmcmc.fitting.strategies.weighted_scores.scores import Floats


class Spreads:
    """The standard deviations of random intercepts during the pilot: parameters of the prior."""

    def __init__(self, regression: Regression) -> None:
        self.values = {group.name: np.full(group.num_spreads, group.prior.quantile(0.5)) for group in regression.groups}

    def prior_at(self, regression: Regression, point: Floats) -> tuple[Floats, Floats]:
        """Return the gradient of the log-prior and its precision, random intercepts included."""
        gradient, bend = regression.prior_at(point)
        bend = regression.prior_precision(bend)
        for group in regression.groups:
            for which, spread in enumerate(self.values[group.name]):
                places = group.members(which)
                gradient[places] = -point[places] / spread**2
                bend[places, places] = 1 / spread**2
        return gradient, bend

    def update(self, regression: Regression, point: Floats, precision: Floats) -> None:
        """Set each spread so that it explains the intercepts, less what noise alone makes of them."""
        for group in regression.groups:
            for which, spread in enumerate(self.values[group.name]):
                places = group.members(which)
                posterior = np.linalg.inv(precision[np.ix_(places, places)] + np.eye(len(places)) / spread**2)
                square = float(np.mean(point[places] ** 2 + np.diag(posterior)))
                low, high = (group.prior.quantile(probability) for probability in (0.01, 0.99))
                if group.prior.fixed is None:
                    self.values[group.name][which] = float(np.clip(np.sqrt(square), low, high))
