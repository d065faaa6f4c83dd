# SPDX-License-Identifier: Apache-2.0
"""What ran where and when in one simulation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tenure import _core

__all__ = ["RUN_ENDS", "Timeline"]

RUN_ENDS: tuple[str, ...] = _core.RUN_ENDS
"""How a run can end: open (at the end of the simulation), finished, stopped (for another),
suspended (an idle session), lost (with its host)."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """Runs and promises as structured arrays; times in microseconds.

    runs
        start_us, end_us, protected_us (nobody may stop it before), job (index into
        `World.jobs`), end (index into RUN_ENDS), first_node (into `nodes`), beneficiary (the job
        it was stopped for + 1, 0 = none); sorted by start.
    nodes
        Node numbers; a run on k nodes has k of them from `first_node` on.
    promises
        made_us, start_by_us, job: starts promised to gangs.
    """

    runs: npt.NDArray[np.void]
    nodes: npt.NDArray[np.uint32]
    promises: npt.NDArray[np.void]
