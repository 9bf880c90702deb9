"""``dpmcmc predict``: what a saved run says of new rows."""

from pathlib import Path
from typing import Annotated, Any

import typer


def predict(
    folder: Annotated[Path, typer.Argument(help="Run folder, --output of `dpmcmc fit`.")],
    data: Annotated[Path, typer.Option(help="New rows, CSV or Parquet; they must be public, or yours.")],
    kind: Annotated[str, typer.Option(help="mean (the expected response) or response (a new observation).")] = "mean",
    prob: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.9,
    output: Annotated[
        Path | None, typer.Option(help="CSV or Parquet file to write the rows and their predictions to.")
    ] = None,
) -> None:
    """Predict the response of new rows from a saved run. Nothing is charged, and no private record is read."""
    from dpmcmc.posterior import Posterior  # JAX and the rest take a second to load; the other commands do without

    table: Any = Posterior.load(folder).predict(data, kind, prob=prob)
    if output is None:
        typer.echo(str(table))
        return
    flat = table.reset_index()
    if output.suffix.lower() == ".parquet":
        flat.to_parquet(output, index=False)
    else:
        flat.to_csv(output, index=False)
    typer.echo(f"wrote {output}")
