# SPDX-License-Identifier: Apache-2.0
"""benchmarks/evidence: every section can be run, written and drawn."""

from __future__ import annotations

import dataclasses
import importlib
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tenure
from tenure.cases import run_case

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "evidence"
MODULES = ("acceptance", "experiments", "pictures", "run", "sections", "store", "tables")


@pytest.fixture(scope="module")
def evidence() -> Any:
    pytest.importorskip("matplotlib")
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        sys.path.remove(str(FOLDER))
        for name in MODULES:
            sys.modules.pop(name, None)


def test_every_parameter_exists(evidence: dict[str, ModuleType]) -> None:
    known = {p.name for p in tenure.policies()["budget"]}
    for label, parameters in evidence["experiments"].ABLATIONS:
        assert parameters.keys() <= known, label


def test_every_section_is_in_the_readme() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    begins = re.findall(r"<!-- BEGIN (\w+) -->", text)
    assert begins == re.findall(r"<!-- END (\w+) -->", text)
    assert len(set(begins)) == len(begins)


def test_tables_and_pictures(evidence: dict[str, ModuleType], tmp_path: Path) -> None:
    """All of it on worlds of a day: the text is right, whatever the numbers."""
    sections, tables = evidence["sections"], evidence["tables"]
    store = evidence["store"].Store(tmp_path / "rows")
    readme = tmp_path / "README.md"
    shutil.copy(FOLDER / "README.md", readme)

    def tiny(case: Any) -> Any:
        world = {"days": 1, "warmup_days": 0, "gpus": 128, **case.world, "nodes_per_rack": 0}
        world["gpus"] = min(world["gpus"], 128)
        return dataclasses.replace(case, world=world)

    def rows_of(_: Any, line: Any) -> list[Any]:
        rows = [store.get(tiny(case)) for case in line.cases]
        if any(row is None for row in rows):
            raise KeyError(line.label)
        return rows

    assert "not run" in evidence["acceptance"].table([1], rows_of)
    for name, (experiment_of, show) in sections.SECTIONS.items():
        experiment = experiment_of([1])
        for line in experiment.lines:
            for case in line.cases:
                if store.get(tiny(case)) is None:
                    store.put(tiny(case), evidence["store"].row_of(run_case(tiny(case))))

        def rows(line: Any, experiment: Any = experiment) -> list[Any]:
            return rows_of(experiment, line)

        body = show(experiment, rows)
        for line in experiment.lines:
            assert line.label in body or line.label == "honest", name
        for row in body.splitlines():
            if row.startswith("|"):
                assert "nan" not in row.lower()
        evidence["run"].write_section(readme, name, body)
        evidence["pictures"].draw(name, experiment, rows, tmp_path)
    table = evidence["acceptance"].table([1], rows_of)
    assert "not run" not in table
    assert re.search(r"\d+ of \d+ met", table)
    evidence["run"].write_section(readme, "acceptance", table)
    assert "| owed % |" in readme.read_text(encoding="utf-8")
    for name in evidence["pictures"].PAINTERS:
        assert "<svg" in (tmp_path / f"{name}.svg").read_text(encoding="utf-8")
    assert tables.written(0.985, "%") == "98.5" and tables.written(7200, "s") == "2.0 h"
    with pytest.raises(SystemExit, match="no section"):
        evidence["run"].write_section(readme, "weather", "rain")
