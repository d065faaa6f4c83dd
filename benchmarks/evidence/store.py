# SPDX-License-Identifier: Apache-2.0
"""Finished simulations on disk, so that a run can be broken off and taken up again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tenure
from tenure.cases import Case, Outcome, run_case

Row = dict[str, Any]


def row_of(outcome: Outcome) -> Row:
    """What the tables need of an outcome: numbers, text, lists and None."""
    result = outcome.result
    return {
        "figures": tenure.figures(result),
        "leaf": [dataclasses.asdict(leaf) for leaf in result.leaf],
        "forecasts": [dataclasses.asdict(sample) for sample in result.forecasts],
        "gamers": list(outcome.gamers),
        "workload": dataclasses.asdict(outcome.summary),
        "sim_wall_s": result.sim_wall_s,
    }


class Store:
    """Rows by case, of one behaviour of the simulator.

    A row is found again as long as its policy, with its parameters, does the same as before on a
    small world with failing hosts: a change of a policy or of a figure makes its rows unknown, a
    change that decides the same keeps them. Parameters count with their values, given or default.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._probes: dict[str, str] = {}
        self._defaults = {
            name: {p.name: p.default for p in parameters}
            for name, parameters in tenure.policies().items()
        }

    def _behaviour(self, case: Case) -> str:
        key = _text({"policy": case.policy, "parameters": case.parameters})
        if key not in self._probes:
            probe = Case(
                policy=case.policy,
                parameters=case.parameters,
                world={"load": 1.6, "gpus": 256, "days": 4, "warmup_days": 1},
                simulation={"notice_permille": 300, "idle_nights_permille": 300},
                faults=tenure.Faults(mean_uptime=6 * 86_400_000_000, failed_resume_permille=50),
            )
            outcome = run_case(probe)
            row = row_of(outcome)
            row["sim_wall_s"] = outcome.result.decision_digest
            self._probes[key] = hashlib.sha256(_text(row).encode()).hexdigest()
        return self._probes[key]

    def _path(self, case: Case) -> Path:
        full = {**self._defaults[case.policy], **case.parameters}
        case = dataclasses.replace(case, parameters=full)
        text = self._behaviour(case) + _text(dataclasses.asdict(case))
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()}.json"

    def get(self, case: Case) -> Row | None:
        path = self._path(case)
        if not path.is_file():
            return None
        row: Row = json.loads(path.read_text(encoding="utf-8"))
        return row

    def put(self, case: Case, row: Row) -> None:
        path = self._path(case)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(row, allow_nan=False), encoding="utf-8")
        part.replace(path)


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r} cannot be part of a case")
