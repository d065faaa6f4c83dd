# SPDX-License-Identifier: Apache-2.0
"""A grid of simulations, one row each.

>>> from tenure import sweep
>>> rows = sweep(
...     {"policy": ["budget"], "budget.quantum": ["30m", "1h"]}, seeds=[1], days=1, warmup_days=0
... )
>>> [row["budget.quantum"] for row in rows]
['30m', '1h']
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import polars as pl

from tenure.cases import Case, run_cases
from tenure.errors import InvalidArgument
from tenure.faults import Faults
from tenure.simulation import Progress, figures, policies

__all__ = ["sweep", "write_rows"]

Row = dict[str, Any]

_SIMULATION = (
    "notice_permille", "idle_nights_permille", "report_idle", "report_restorable", "pass_interval",
    "grace",
)  # fmt: skip
_FAULTS = tuple(f"faults.{name}" for name in Faults.__dataclass_fields__ if name != "maintenance")


def _cases(
    grid: Mapping[str, Sequence[Any]], seeds: Sequence[int], fixed: Mapping[str, Any]
) -> list[tuple[Row, Case]]:
    """Every point of the grid on every seed; a parameter of another policy makes no new point."""
    known = policies()
    points: dict[str, tuple[Row, Case]] = {}
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        policy = str(point.get("policy", "budget"))
        if policy not in known:
            raise InvalidArgument(f"unknown policy {policy!r}, known: {', '.join(known)}")
        parameters, world, simulation, faults = {}, dict(fixed), {}, {}
        row: Row = {"policy": policy}
        for key, value in point.items():
            group, dot, name = key.partition(".")
            if key == "policy":
                continue
            if dot and group in known:
                if name not in [p.name for p in known[group]]:
                    raise InvalidArgument(f"policy {group!r} has no parameter {name!r}")
                if group != policy:
                    continue
                parameters[name] = value
            elif key in _FAULTS:
                faults[name] = value
            elif key in _SIMULATION:
                simulation[key] = value
            elif not dot:
                world[key] = value
            else:
                raise InvalidArgument(
                    f"{key!r} is neither a parameter POLICY.KEY, one of {', '.join(_FAULTS)} or "
                    f"{', '.join(_SIMULATION)}, nor an option of generate"
                )
            row[key] = value
        for seed in seeds:
            case = Case(
                policy=policy,
                parameters=parameters,
                world={**world, "seed": seed},
                simulation=simulation,
                faults=Faults(**faults) if faults else None,
            )
            points.setdefault(repr(case), ({**row, "seed": seed}, case))
    return list(points.values())


def sweep(
    grid: Mapping[str, Sequence[Any]],
    seeds: Sequence[int] = (1, 2, 3),
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> list[Row]:
    """Simulate every combination of the values of `grid` on every seed.

    Parameters
    ----------
    grid
        Values by name: "policy"; "POLICY.KEY", a parameter of a policy, which other policies
        ignore; an option of `generate` such as "load"; of `simulate` such as "notice_permille";
        "faults.KEY" of `Faults`.
    seeds
        Of the generated worlds.
    executor
        Any PEP 3148 executor, also one of several machines; by default everything runs here.
    options
        Options of `generate` that are the same everywhere.

    Returns
    -------
    One flat row for each simulation: where it lies in the grid, its seed, and its figures under
    their dotted names; in the order of the grid.

    Raises
    ------
    InvalidArgument
        An unknown name in the grid, or a value that a simulation refuses.
    """
    for name, values in grid.items():
        if isinstance(values, str) or not len(values):
            raise InvalidArgument(f"grid: {name!r} is {values!r}, must be a list of values")
    named = _cases(grid, seeds, options)
    # Cases of the same world beside each other: it is generated once then.
    order = sorted(range(len(named)), key=lambda i: (repr(sorted(named[i][1].world.items())), i))
    done = run_cases([named[i][1] for i in order], executor=executor, progress=progress)
    outcomes = dict(zip(order, done, strict=True))
    return [
        {**row, **figures(outcomes[i].result), "sim_wall_s": outcomes[i].result.sim_wall_s}
        for i, (row, _) in enumerate(named)
    ]


def write_rows(rows: Sequence[Row], path: str | Path) -> None:
    """Write rows as .csv, .parquet or .json by the name of the file.

    Raises
    ------
    InvalidArgument
        The name ends otherwise.
    """
    path = Path(path)
    if path.suffix == ".json":
        path.write_text(json.dumps(list(rows), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        return
    table = pl.DataFrame(list(rows), infer_schema_length=None)
    if path.suffix == ".csv":
        table.write_csv(path)
    elif path.suffix == ".parquet":
        table.write_parquet(path)
    else:
        raise InvalidArgument(f"{path}: must end in .csv, .parquet or .json")
