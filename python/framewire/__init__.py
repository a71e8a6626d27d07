"""Framewire: interactive video over simulated networks, for Python.

>>> import framewire
>>> link = {"rate": "5mbit", "delay": "20ms"}
>>> scenario = framewire.Scenario(link=link, flow={"cc": "sqp"}, duration="2s")
>>> result = framewire.run(scenario)
>>> result.summary["flows"][0]["loss"]
0.0

A run is a function of scenario, seed and commit: ``result.hash`` is the one that ``framewire run`` prints.
Fields of a scenario are those of its file (``docs/scenario.md``), figures those of ``docs/json.md``, columns
of tables those of ``docs/output.md``; ``docs/python.md`` is the guide.
"""

from ._framewire import COMMIT as commit
from ._framewire import VERSION as __version__
from .controller import Controller, Decision, Report, Setup, Verdict, check, register_controller
from .fuzzing import Finding, Search, fuzz
from .lists import controllers, playouts, queues, targets
from .results import Comparison, Picture, Result
from .running import compare, run
from .scenario import Scenario
from .sweeping import Plan, Sweep, sweep
from .table import Table

__all__ = [
    "Comparison",
    "Controller",
    "Decision",
    "Finding",
    "Picture",
    "Plan",
    "Report",
    "Result",
    "Scenario",
    "Search",
    "Setup",
    "Sweep",
    "Table",
    "Verdict",
    "__version__",
    "check",
    "commit",
    "compare",
    "controllers",
    "fuzz",
    "playouts",
    "queues",
    "register_controller",
    "run",
    "sweep",
    "targets",
]
