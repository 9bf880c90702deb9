"""The samplers of the literature, one file each: pure functions that query an oracle and never see a record.

New files are found automatically: the sampler, the function with the file's name, becomes a name of this package. The
imports below are for type checkers.
"""

from importlib import import_module
from pkgutil import iter_modules

from dpmcmc.kernels.base import KERNELS, Info, Kernel
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

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")
    if (_made := KERNELS.get(f"{__name__}.{_file.name}.{_file.name}")) is not None:
        globals()[_file.name] = _made  # where importing has put the module
