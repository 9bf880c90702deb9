"""The catalogue of samplers: a record for each, in a file of its own that is found automatically.

`fit`, the planner, the shell, citations and the documentation read it; none of them knows a sampler by name.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from dpmcmc.catalogue.problem_size import ProblemSize
from dpmcmc.catalogue.sampler import Recipe, Sampler
from dpmcmc.errors import InvalidArgument
from dpmcmc.kernels import Kernel

__all__ = ["SAMPLERS", "ProblemSize", "Recipe", "Sampler", "citation"]


def _found() -> dict[str, Sampler]:
    modules = {module.name: import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)}
    return {name: module.SAMPLER for name, module in sorted(modules.items()) if hasattr(module, "SAMPLER")}


SAMPLERS: Mapping[str, Sampler] = _found()
"""The records, by the names that `fit` knows."""


def citation(kernel: Kernel | Callable[..., Any]) -> str:
    """Return BibTeX entries for the papers behind a sampler.

    Args:
        kernel: a kernel, or the function that creates one, such as `dp_langevin`.
    """
    name = kernel.name if isinstance(kernel, Kernel) else getattr(kernel, "__name__", repr(kernel))
    known = {one: record.papers for one, record in SAMPLERS.items() if record.kernel.__name__ == one and record.papers}
    if name not in known:
        raise InvalidArgument(f"kernel={name!r} must be one of {', '.join(sorted(known))}")
    return "\n\n".join(known[name])
