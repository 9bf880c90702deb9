"""Pictures of what draws of a formula predict."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from dpmcmc.diagnostics.effect_plots import draw_curves, dress_panels, panels
from dpmcmc.posterior import effects
from dpmcmc.posterior.fitted import Fitted
from dpmcmc.posterior.new_rows import needed


def plot_effects(
    fitted: Fitted, names: Sequence[str], by: str | None, at: Mapping[str, Any], rows: Any, prob: float
) -> Figure:
    """Draw a panel for each column."""
    trials = fitted.model.coordinates.response.trials
    every = [name for name in needed(fitted.model, fitted.schema) if name not in (by, trials, *at)]
    chosen = list(names) or every
    figure, axes = panels(len(chosen))
    colours: str | None = by
    for name, ax in zip(chosen, axes, strict=True):
        table = effects.effects(fitted, name, by, at, rows, None, prob)
        colours = fitted.model.response if fitted.model.response in table else by
        column = fitted.schema.columns[name]
        unit = f" ({column.unit})" if column.unit else ""
        draw_curves(ax, table, name, colours, f"{name}{unit}", fitted.target)
    varied = chosen if len(chosen) == 1 else []
    held = effects.held_words(fitted, dict.fromkeys([*varied, *([by] if by else [])]), at, rows)
    dress_panels(axes, colours, held if len(chosen) == 1 else f"the others {held}")
    return figure
