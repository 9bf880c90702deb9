"""Fits that are written to a run folder while they run, so that they can be interrupted at any moment and resumed."""

import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpmcmc.enclave import Journal, PrivateData
from dpmcmc.errors import EngineUnavailable, InvalidArgument, ResumeRefused, RunInterrupted, UnknownRun
from dpmcmc.fitting.numpy_errors import as_by_default
from dpmcmc.fitting.prepare import PreparedFit, prepare_fit
from dpmcmc.model import Model
from dpmcmc.posterior import Posterior
from dpmcmc.run import folder as run_folder
from dpmcmc.run.interrupt import interruptible


def run_in_folder(
    prepared: PreparedFit,
    output: str | os.PathLike[str],
    *,
    command: dict[str, Any] | None = None,
    progress: bool = True,
) -> Posterior:
    """Run a prepared fit and write it to a new folder.

    Without a ledger, or with an insecure seed, the run cannot be resumed.

    Args:
        prepared: the fit, from `prepare_fit`.
        output: the run folder to write, which must be new.
        command: plain values that ``dpmcmc resume`` needs to find the data; kept in the private file of the run.
        progress: whether to show a progress bar.
    """
    folder = Path(output)
    if folder.exists():
        raise InvalidArgument(f"output={str(folder)!r} exists; choose a new one, a saved run is not overwritten")
    if prepared.data.budget is None or prepared.insecure_seed is not None:
        posterior = prepared.run(progress=progress)
        posterior.save(folder)
        return posterior
    memo = {"seed": prepared.seed, "fit": dict(prepared.arguments), "command": command}
    with Journal.create(folder, memo) as journal:
        return _go_on(prepared, journal, stop=False, progress=progress)


@as_by_default()
def resume(
    folder: str | os.PathLike[str],
    data: PrivateData,
    model: Model | Callable[..., Any] | None = None,
    *,
    init: Any = None,
    stop: bool = False,
    progress: bool = True,
) -> Posterior:
    """Resume a run that was interrupted by Ctrl-C, kill -9 or a power failure. It is not charged again.

    The draws are the same as without the interruption. A finished run is read from its folder.

    Args:
        folder: the run folder, `output` of `fit`.
        data: the same records as before, with the same ledger.
        model: the same model as before; left out if it was a formula. Formulas and all settings are stored.
        init: the same starting point as before, if one was stated.
        stop: whether to finish the run now: draws so far are kept, and the unused budget is refunded.
        progress: whether to show a progress bar.

    Raises:
        ResumeRefused: something has changed, or the run's noise key is gone; nothing was released.
    """
    place = Path(folder)
    if run_folder.is_finished(place):
        return Posterior.load(place)
    with Journal.open(place) as journal:
        arguments = dict(journal.memo["fit"])
        formula = arguments.pop("model")
        if formula is None and model is None:
            raise InvalidArgument("model=None must be the model that the run was begun with, which was not a formula")
        if formula is not None and model is not None and model != formula:
            raise ResumeRefused(f"model={model!r} is not what the run was begun with, {formula!r}; leave model out")
        chosen: Any = formula if model is None else model
        prepared = prepare_fit(chosen, data, **arguments, init=init, allow_low_accuracy=True)
        try:
            return _go_on(replace(prepared, seed=journal.memo["seed"]), journal, stop=stop, progress=progress)
        except UnknownRun as error:
            if run_folder.is_complete(place):  # it was stopped after it was settled
                journal.forget()
                run_folder.tidy(place)
                return Posterior.load(place)
            raise ResumeRefused(
                f"{str(place)!r} cannot be resumed: {error}. Resume it with the ledger that it was charged to"
            ) from error


def _go_on(prepared: PreparedFit, journal: Journal, *, stop: bool, progress: bool) -> Posterior:
    """Run to the end, or until an interrupt; the folder is complete before the charge is settled."""
    folder = journal.folder
    prepared.compile()
    try:
        with (
            interruptible() as is_interrupted,
            prepared.watched(progress) as watcher,
            prepared.data.reserve_resumable(prepared.event, journal, description=prepared.description) as paid,
        ):
            posterior = prepared.draw(paid, watcher, (lambda: paid.is_caught_up) if stop else is_interrupted)
            done = posterior.is_accepted.shape[1]
            if done < prepared.num_steps and not stop:
                raise RunInterrupted(f"stopped after {done} of {prepared.num_steps} steps; {_how_to_go_on(folder)}")
            run_folder.put(posterior, folder)
    except (OSError, sqlite3.Error) as error:
        raise RunInterrupted(f"stopped, because a file cannot be written: {error}; {_how_to_go_on(folder)}") from error
    except EngineUnavailable as error:
        if journal.is_over:  # nothing was executed, and nothing is charged
            raise
        raise RunInterrupted(f"stopped: {error}; {_how_to_go_on(folder)}") from error
    finally:
        if journal.is_over:
            run_folder.tidy(folder)
    return posterior


def _how_to_go_on(folder: Path) -> str:
    return (
        f"`dpmcmc resume {folder}` continues the run at no further charge. With --stop it finishes now: draws are "
        "kept, and the unused budget is refunded. In Python, dpmcmc.resume(folder, data, stop=...)"
    )
