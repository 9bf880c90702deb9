"""``dpmcmc demo``: a private posterior of simulated records, from the budget to the report."""

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from dpmcmc.accounting import Adjacency, Budget, Ledger, epsilon
from dpmcmc.errors import BudgetExceeded, InvalidArgument
from dpmcmc.report.privacy import privacy_page

_BUDGET = Budget(epsilon=4.0, delta=1e-6)
_RECORDS, _CHAINS, _PILOT_STEPS, _STEPS = 200_000, 2, 30, 350


def demo(
    output: Annotated[Path, typer.Option(help="Folder for the ledger, the run and the report.")] = Path("demo"),
) -> None:
    """Sample the posterior of a logistic regression under differential privacy, and write its report."""
    _make_room(output)
    import numpy as np  # JAX and the rest take a second to load; the shell's other commands do without

    import dpmcmc as dp
    from dpmcmc import zoo
    from dpmcmc.report.draws import draws_sections

    problem = zoo.logistic_regression(np.random.default_rng(2026), num_records=_RECORDS)
    typer.echo(f"1. Records: {_RECORDS:,} simulated rows of a logistic regression; a ledger grants them {_BUDGET}.")
    ledger = Ledger.create(f"sqlite:///{output / 'ledger.db'}")
    ledger.register("patients", _BUDGET, Adjacency.REPLACE_ONE)
    data = dp.PrivateData(problem.records, bounds=problem.bounds, ledger=ledger, dataset="patients")

    # One record's gradient is at most its row (1, x), whose norm is at most 2: the bounds are public.
    pilot = dp.gradient_ascent(dp.GradientSum(clip=2.0, noise_multiplier=180.0), step_size=8 / _RECORDS)
    sampler = dp.dp_hmc(
        gradient=dp.GradientSum(clip=2.0, noise_multiplier=170.0),
        log_ratio=dp.PenaltyTest(clip=2.0, noise_multiplier=32.0),
        step_size=0.0013,
        num_leapfrog=4,
        reuse_gradients=True,
        step_size_jitter=0.3,
    )
    plan: dict[str, Any] = {
        "kernel": [(pilot, _PILOT_STEPS), (sampler, _STEPS)],
        "model": problem.model,
        "data": data,
        "num_chains": _CHAINS,
        "init": np.zeros(problem.dimension),
    }
    price = dp.price(**plan)
    cost = float(epsilon(price, _BUDGET.delta))
    typer.echo(f"2. Price, read off the traced program: epsilon = {cost:.3f} at delta = {_BUDGET.delta:g}.")
    typer.echo("3. DP-HMC after a paid pilot:")
    posterior = dp.sample(**plan, num_warmup=_PILOT_STEPS + _STEPS // 4)
    typer.echo(f"   {posterior.certificate.statement}")
    try:
        dp.sample(**plan, progress=False)
    except BudgetExceeded as refusal:
        typer.echo(f"4. The same once more is refused: {refusal}")
    folder = posterior.save(output / "run")
    sections = draws_sections(posterior, known=problem.centre.tolist())
    page = privacy_page("A private posterior, and what it costs", posterior.certificate, _BUDGET, sections)
    (output / "report.html").write_text(page, encoding="utf-8")
    typer.echo(f"   The run is in {folder}: draws, summary, certificate, settings.")
    typer.echo(f"\nOpen {output / 'report.html'}")


def _make_room(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / "ledger.db").unlink(missing_ok=True)
        shutil.rmtree(output / "run", ignore_errors=True)
    except OSError as error:
        raise InvalidArgument(
            f"output={str(output)!r} is not a folder that can be written: {error.strerror}"
        ) from error
