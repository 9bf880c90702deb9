"""One self-contained page that says what a result costs in privacy, for the owner of the data."""

import io
from collections.abc import Sequence
from html import escape
from typing import NamedTuple, TypeAlias

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from dpmcmc.accounting import Budget, Certificate, delta

Table: TypeAlias = Sequence[Sequence[str]]


class Section(NamedTuple):
    """A part of a page: a heading, a sentence, and a table (its first row is the header), a picture (SVG), or both."""

    heading: str
    sentence: str
    table: Table = ()
    picture: str = ""


_STYLE = """
:root { color-scheme: light dark; --ink: #1a1c20; --paper: #ffffff; --line: #d5d9e0; --quiet: #5a6270; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaee; --paper: #16181c; --line: #3a3f48; --quiet: #9aa3b2; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 46rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.statement { font-size: 1.1rem; border-left: 4px solid #0072b2; padding-left: 1rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .6rem .3rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top; } .number { text-align: right;
  font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; background: #ffffff; border-radius: 6px; padding: .5rem; } figure svg { max-width: 100%;
  height: auto; } figcaption, .quiet { color: var(--quiet); font-size: .9rem; } figcaption { color: #5a6270; }
.scroll { overflow-x: auto; }
"""


def privacy_page(title: str, certificate: Certificate, budget: Budget, sections: Sequence[Section]) -> str:
    """Return the page as HTML without scripts or links to anything outside.

    Args:
        title: what the page is about.
        certificate: the privacy statement.
        budget: what the owner of the data allows; drawn into the curve.
        sections: what else the page shows.
    """
    held = "".join(f"<li>{escape(words)}</li>" for words in certificate.holds_if)
    shown = "".join(map(_section, sections))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
        f"<h1>{escape(title)}</h1>"
        f'<p class="statement">{escape(certificate.statement)}</p>'
        f"<figure>{_curve(certificate, budget)}<figcaption>All points on the curve hold at once; the cross is the "
        f"budget.</figcaption></figure>{shown}"
        f"<h2>It holds if</h2><ul>{held}</ul>"
        f"<h2>The certificate in full</h2><div class='scroll'><pre>{escape(certificate.to_json())}</pre></div>"
        f'<p class="quiet">Made by dpmcmc {escape(certificate.library_version)}.</p></body></html>'
    )


def as_svg(figure: Figure, label: str) -> str:
    """Return a figure as SVG, letters drawn as shapes, with a label for those who cannot see it."""
    image = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "path"}):
        figure.savefig(image, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = image.getvalue()
    return svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)


def _section(section: Section) -> str:
    table = _table(section.table) if section.table else ""
    picture = f"<figure>{section.picture}</figure>" if section.picture else ""
    return f"<h2>{escape(section.heading)}</h2><p>{escape(section.sentence)}</p>{picture}{table}"


def _table(rows: Table) -> str:
    def cells(row: Sequence[str], tag: str) -> str:
        """The first cell of a row is text, the others are numbers."""
        return "".join(
            f"<{tag}{' class=number' if at else ''}>{escape(cell)}</{tag.split()[0]}>" for at, cell in enumerate(row)
        )

    head = cells(rows[0], 'th scope="col"')
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows[1:])
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _curve(certificate: Certificate, budget: Budget) -> str:
    """Draw delta against epsilon as SVG."""
    epsilons = np.linspace(0, max(1.25 * budget.epsilon, 0.1), 60)
    deltas = [float(delta(certificate.event, value)) for value in epsilons]
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(7, 3.2), layout="constrained")
        axis = figure.add_subplot()
        axis.semilogy(epsilons, deltas, color="#0072B2", linewidth=2, label="what was released")
        axis.plot(
            [budget.epsilon], [budget.delta], "x", color="#D55E00", markersize=9, markeredgewidth=2, label="budget"
        )
        axis.set(xlabel=f"epsilon ({certificate.adjacency.words} adjacency)", ylabel="delta")
        axis.set_ylim(bottom=budget.delta / 1e3)
        axis.grid(alpha=0.25)
        axis.legend(frameon=False)
    return as_svg(figure, "delta falls with epsilon")
