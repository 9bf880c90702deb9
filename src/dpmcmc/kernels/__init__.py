"""The samplers of the literature, one file each: pure functions that ask an oracle and never see a record."""

from dpmcmc.kernels.base import Info, Kernel
from dpmcmc.kernels.citation import citation
from dpmcmc.kernels.dp_barker import dp_barker
from dpmcmc.kernels.dp_hmc import dp_hmc
from dpmcmc.kernels.dp_langevin import dp_langevin
from dpmcmc.kernels.dp_penalty import dp_penalty
from dpmcmc.kernels.dp_sghmc import dp_sghmc
from dpmcmc.kernels.dp_sgld import dp_sgld
from dpmcmc.kernels.dp_sgnht import dp_sgnht
from dpmcmc.kernels.gradient_ascent import gradient_ascent
from dpmcmc.kernels.guided_walk import guided_walk
from dpmcmc.kernels.normal_draws import normal_draws
from dpmcmc.kernels.schedule import Stage, polynomial_steps
from dpmcmc.kernels.surrogate_hmc import surrogate_hmc

__all__ = [
    "Info",
    "Kernel",
    "Stage",
    "citation",
    "dp_barker",
    "dp_hmc",
    "dp_langevin",
    "dp_penalty",
    "dp_sghmc",
    "dp_sgld",
    "dp_sgnht",
    "gradient_ascent",
    "guided_walk",
    "normal_draws",
    "polynomial_steps",
    "surrogate_hmc",
]
