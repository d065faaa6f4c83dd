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
)
from tenure.scenario import ScenarioCase, ScenarioReport, replay
from tenure.scheduler import (
    Decisions,
    Explanation,
    Forecast,
    Hold,
    LostRun,
    MaintenanceWindow,
    NodeReport,
    Promise,
    ReconcileReport,
    Scheduler,
    Standing,
    Start,
    Stop,
    WhatIf,
)
from tenure.simulation import (
    LeafResult,
    PolicyParameter,
    Quantiles,
    Result,
    policies,
    simulate,
)
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
    "JOB_DTYPE",
    "JOB_FLAGS",
    "ROOT",
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
    "Forecast",
    "Hold",
    "Internal",
    "InvalidArgument",
    "Leaf",
    "LeafResult",
    "LostRun",
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
    "Standing",
    "Start",
    "Stop",
    "WhatIf",
    "WorkloadSummary",
    "World",
    "__version__",
    "compare",
    "generate",
    "importers",
    "policies",
    "replay",
    "simulate",
]
