"""The mixture of Heikkilä et al. (2019), Section 4: N = 1,000,000 records at the temperature 100 / N."""

import numpy as np

from dpmcmc import validation
from dpmcmc.zoo import settings
from dpmcmc.zoo.mixture import mixture
from dpmcmc.zoo.problem import Problem

TEMPERED_SIZE = 100


def mixture_2019(rng: np.random.Generator, *, num_records: int = 1_000_000) -> Problem:
    """Return the mixture: variance 2, priors N(0, 10) and N(0, 1), truth (0, 1), tempered to 100 records.

    The paper starts at a private variational estimate, which is charged; here start points lie around the truth.
    """
    num_records = validation.integer("num_records", num_records, at_least=1)
    return mixture(
        rng,
        num_records=num_records,
        temperature=min(1.0, TEMPERED_SIZE / num_records),
        name="barker_2019_mixture",
        paper=settings.BARKER_2019,
        settings={
            "protocol": {"delta": 1 / num_records, "num_repeats": 20, "num_steps": 20_000, "num_warmup": 1000},
            "dp_barker": settings.dp_barker(proposal_scale=0.1, batch_size=1000),
            "dp_sgld": settings.dp_sgld(num_records, eta=70.0, gradient_clip=0.01, batch_size=100, num_steps=6_000_000),
            "clipping": {"proposal_variances": tuple(np.linspace(0.005, 0.02, 10).tolist())},
        },
    )
