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
from tenure import _core
from tenure.cases import Case, Outcome

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
    """Rows by case. A row is of one build of the simulator: of another it is not found."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._build = hashlib.sha256(Path(_core.__file__).read_bytes()).hexdigest()

    def _path(self, case: Case) -> Path:
        text = json.dumps(dataclasses.asdict(case), sort_keys=True, default=_plain)
        return self._folder / f"{hashlib.sha256((self._build + text).encode()).hexdigest()}.json"

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


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{value!r} cannot be part of a case")
