"""The page that people read: what a run found and what it cost, in one HTML file.

It stands below `posterior`, which hands itself over as a `Run`: a page needs to know what a run shows, not who made it.
"""

from dpmcmc.report.page import render_report, write_report
from dpmcmc.report.run import Run

__all__ = ["Run", "render_report", "write_report"]
