"""Refusals in the words of the shell: the library names its arguments, a person at a shell knows options."""

import functools
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dpmcmc.accounting import Budget
from dpmcmc.errors import BudgetExceeded, BudgetUnreachable, DpmcmcError, InvalidArgument

EXIT_REFUSED, EXIT_BUDGET, EXIT_USELESS, EXIT_BAD, EXIT_BROKEN = 2, 3, 4, 5, 6
"""Exit codes: refused or failed with a message, no budget, a useless plan, a bad verdict, a broken claim."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

OPTIONS = {
    "allow_low_accuracy": "--allow-low-accuracy",
    "family": "--family",
    "client": "--scheduler",
    "num_chains": "--chains",
    "num_steps": "--steps",
    "passes": "--passes",
    "priors": "--prior",
    "rows_keep_place": "--rows-keep-place",
    "scheduler": "--scheduler",
    "scratch": "--scratch",
    "capacity": "--capacity",
    "sampler": "--sampler",
    "schema": "--schema",
    "source": "--data",
}
"""The options of the shell by the arguments that they become."""

_FIRST_ARGUMENT = re.compile(r"^(epsilon|delta)=")

_ARGUMENT = re.compile(rf"(?<![\w.'-])({'|'.join(OPTIONS)})=(True|None )?")


def in_words_of_the_shell(message: str) -> str:
    """Name options where a message names arguments: ``num_chains=0`` becomes ``--chains 0``."""
    return _ARGUMENT.sub(lambda found: OPTIONS[found[1]] + ("" if found[2] == "True" else " "), message)


def exit_code(error: DpmcmcError) -> int:
    """Return the exit code for an error that was raised on purpose."""
    if isinstance(error, BudgetExceeded):
        return EXIT_BUDGET
    return EXIT_USELESS if isinstance(error, BudgetUnreachable) else EXIT_REFUSED


def granted(epsilon: float | None, delta: float | None) -> Budget | None:
    """Return the budget that a table is granted by --grant-epsilon and --grant-delta, if any."""
    if epsilon is None and delta is None:
        return None
    if epsilon is None or delta is None:
        raise InvalidArgument("a budget is granted with --grant-epsilon and --grant-delta together; give both")
    return Budget(epsilon, delta)


def names_options(command: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let the refusals of a command name its options."""

    @functools.wraps(command)
    def called(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        try:
            return command(*arguments, **options)
        except InvalidArgument as error:  # its message starts with the argument; others speak of budgets and prices
            words = _FIRST_ARGUMENT.sub(lambda found: f"--{found[1]} ", str(error))
            raise type(error)(in_words_of_the_shell(words)) from error
        except DpmcmcError as error:
            raise type(error)(in_words_of_the_shell(str(error))) from error

    return called
