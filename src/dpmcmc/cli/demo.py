"""``dpmcmc demo``: the accounting at work, from plan to report, on a made-up budget."""

from pathlib import Path
from typing import Annotated

import typer

from dpmcmc import accounting
from dpmcmc.accounting import Adjacency, Budget, Certificate, Event, Ledger, samplers
from dpmcmc.errors import BudgetExceeded, InvalidArgument
from dpmcmc.report.privacy import privacy_page

_BUDGET = Budget(epsilon=4.0, delta=1e-6)
_NOISE_RATIO, _NOISE_GRADIENT, _LEAPFROG, _CHAINS = 31.6, 174.0, 25, 4  # the banana of Räisä et al. 2021


def demo(
    output: Annotated[Path, typer.Option(help="Folder for the ledger, the certificate and the report.")] = Path("demo"),
) -> None:
    """Plan DP-HMC runs within a budget, charge them to a ledger, and write the privacy report."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / "ledger.db").unlink(missing_ok=True)
    except OSError as error:
        raise InvalidArgument(
            f"output={str(output)!r} is not a folder that can be written: {error.strerror}"
        ) from error

    typer.echo(f"1. Plan. DP-HMC, {_CHAINS} chains, within {_BUDGET}, replace-one adjacency:")
    plans = _plans()
    for name, steps, _ in plans:
        typer.echo(f"   {steps:>5,} steps a chain  {name}")

    typer.echo("2. Pay. The ledger is charged before a record is read:")
    ledger = Ledger.create(f"sqlite:///{output / 'ledger.db'}")
    ledger.register("patients", _BUDGET, Adjacency.REPLACE_ONE)
    _, steps, best = plans[-1]
    reservation = ledger.reserve("patients", best, what=f"DP-HMC, {_CHAINS} chains of {steps} steps")
    typer.echo(f"   reserved {steps:,} steps: epsilon = {accounting.epsilon(best, _BUDGET.delta):.4f} at delta = 1e-06")
    try:
        ledger.reserve("patients", best, what="the same once more")
    except BudgetExceeded as refusal:
        typer.echo(f"   a second run is refused: {refusal}")
    reservation.settle()

    typer.echo("3. Certify.")
    account = ledger.account("patients")
    certificate = Certificate(account.spent, account.adjacency, _BUDGET.delta)
    (output / "certificate.json").write_text(certificate.to_json() + "\n", encoding="utf-8")
    rows = [["reading of one DP-HMC step", "steps a chain"], *([name, f"{steps:,}"] for name, steps, _ in plans)]
    page = privacy_page(
        "What this posterior costs in privacy",
        certificate,
        _BUDGET,
        [("How many steps the budget pays for", f"DP-HMC, {_CHAINS} chains, each of them paid for.", rows)],
    )
    (output / "report.html").write_text(page, encoding="utf-8")
    typer.echo(f"   {certificate.statement}")
    typer.echo(f"\nOpen {output / 'report.html'}")


def _plans() -> list[tuple[str, int, Event]]:
    """Return name, steps a chain and total event of DP-HMC as published and as accounted for here."""
    options = [
        ("as published, zero-concentrated accounting", "zcdp", False, False),
        ("exact Gaussian curve", "tight", False, False),
        ("and gradients reused where trajectories meet", "tight", True, False),
        ("and only accept decisions released", "tight", True, True),
    ]
    plans: list[tuple[str, int, Event]] = []
    for name, accountant, reuse, hidden in options:
        cost = samplers.dp_hmc(_NOISE_RATIO, _NOISE_GRADIENT, _LEAPFROG, reuse, hidden)
        per_step, once = cost.per_step * _CHAINS, cost.once * _CHAINS
        steps = accounting.max_steps(per_step, _BUDGET.epsilon, _BUDGET.delta, once, accountant)
        plans.append((name, steps, per_step * steps + once))
    return plans
