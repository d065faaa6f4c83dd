# SPDX-License-Identifier: Apache-2.0
"""GPU-time budgets with a guaranteed minimum runtime.

>>> import tenure
>>> world = tenure.generate("institute", load=1.3, seed=1, days=1, warmup_days=0)
>>> result = tenure.simulate(world, "budget")
>>> comparison = tenure.compare([world], ["fairtree", "budget"])

Time is a timedelta or integer microseconds, never float seconds. Results are frozen. Everything the
package raises on purpose is a `tenure.Error`.
"""

from __future__ import annotations

from tenure import importers
from tenure._version import __version__
from tenure.answers import (
    Decisions,
    Explanation,
    Forecast,
    Hold,
    LostRun,
    MaintenanceWindow,
    NodeReport,
    Promise,
    ReconcileReport,
    SearchRecord,
    Standing,
    Start,
    Stop,
    WhatIf,
)
from tenure.budget import ROOT, BudgetEdit, BudgetTree
from tenure.comparison import Comparison, WorkloadSummary, compare
from tenure.errors import (
    AlreadyExists,
    Cancelled,
    Error,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfRange,
    ResourceExhausted,
    Unavailable,
)
from tenure.faults import Faults, Maintenance
from tenure.gaming import GAME_STRATEGIES, game
from tenure.grid import sweep, write_rows
from tenure.scenario import ScenarioCase, ScenarioReport, replay
from tenure.scheduler import Scheduler
from tenure.simulation import (
    ForecastSample,
    LeafResult,
    PolicyParameter,
    Quantiles,
    Result,
    Spread,
    figures,
    policies,
    simulate,
)
from tenure.timeline import RUN_ENDS, Timeline
from tenure.world import (
    JOB_DTYPE,
    JOB_FLAGS,
    WORKLOAD_CLASSES,
    Cluster,
    Leaf,
    World,
    generate,
)

__all__ = [
    "GAME_STRATEGIES",
    "JOB_DTYPE",
    "JOB_FLAGS",
    "ROOT",
    "RUN_ENDS",
    "WORKLOAD_CLASSES",
    "AlreadyExists",
    "BudgetEdit",
    "BudgetTree",
    "Cancelled",
    "Cluster",
    "Comparison",
    "Decisions",
    "Error",
    "Explanation",
    "FailedPrecondition",
    "Faults",
    "Forecast",
    "ForecastSample",
    "Hold",
    "Internal",
    "InvalidArgument",
    "Leaf",
    "LeafResult",
    "LostRun",
    "Maintenance",
    "MaintenanceWindow",
    "NodeReport",
    "NotFound",
    "OutOfRange",
    "PolicyParameter",
    "Promise",
    "Quantiles",
    "ReconcileReport",
    "ResourceExhausted",
    "Result",
    "ScenarioCase",
    "ScenarioReport",
    "Scheduler",
    "SearchRecord",
    "Spread",
    "Standing",
    "Start",
    "Stop",
    "Timeline",
    "Unavailable",
    "WhatIf",
    "WorkloadSummary",
    "World",
    "__version__",
    "compare",
    "figures",
    "game",
    "generate",
    "importers",
    "policies",
    "replay",
    "simulate",
    "sweep",
    "write_rows",
]
