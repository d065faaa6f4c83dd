# SPDX-License-Identifier: Apache-2.0
"""Readers of job traces. Each row is imported or counted in a class of the report, none vanishes.

>>> from tenure.importers import ContractRule
>>> ContractRule().sentences()[0]
'minimum runtime = 1/4 of the requested (else true) run time, 15m to 8h'
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from tenure._time import Time, parse_us, to_us
from tenure.errors import InvalidArgument
from tenure.importers import philly as _philly
from tenure.importers import swf as _swf
from tenure.importers import workload as _workload
from tenure.importers._build import Imported, Options
from tenure.importers._text import decode, read_bytes
from tenure.importers.report import Finding, ImportReport
from tenure.importers.rule import ContractRule
from tenure.importers.tree import BudgetFile, read_tree
from tenure.importers.workload import write_workload

__all__ = [
    "FORMATS",
    "BudgetFile",
    "ContractRule",
    "Finding",
    "ImportReport",
    "Imported",
    "detect_format",
    "load",
    "read_tree",
    "write_workload",
]

FORMATS = ("swf", "philly", "workload")


def detect_format(path: str | Path) -> str:
    """Return the format of a file by its content; InvalidArgument if it is none of FORMATS."""
    data = read_bytes(path)
    if data[:4] == b"PAR1":
        return "workload"
    for line in decode(data[:65_536]).splitlines():
        text = line.strip()
        if not text or (text.startswith("#") and not text.startswith(_workload.FORMAT_LINE)):
            continue
        if text.startswith(_workload.FORMAT_LINE):
            return "workload"
        if text.startswith(";"):
            return "swf"
        if text.startswith("["):
            return "philly"
        columns = {name.strip().strip('"') for name in text.split(",")}
        if {"submit_us", "runtime_us"} <= columns:
            return "workload"
        if {"timestamp", "num_gpus"} <= columns:
            return "philly"
        if len(text.split()) >= 18:
            return "swf"
        break
    raise InvalidArgument(f"{path}: format not recognized, must be one of {', '.join(FORMATS)}")


def load(
    path: str | Path,
    *,
    format: str = "auto",
    gpus: int | None = None,
    nodes_of: int = 8,
    leaf_by: str = "group",
    tree: str | Path | None = None,
    rule: ContractRule | None = None,
    strict: bool = False,
    start: str | datetime | Time | None = None,
    days: int | None = None,
    duplicates: str = "keep",
) -> Imported:
    """Read a trace into a world.

    Parameters
    ----------
    path
        The file, plain or gzip.
    format
        "swf" (SWF 2.2), "philly" (CSV or JSON), "workload" (the canonical CSV or Parquet), or
        "auto".
    gpus, nodes_of
        The cluster: GPUs in all, GPUs of a node. By default a cluster of the size the header names,
        else one that holds the largest job. Jobs of fewer than `nodes_of` GPUs run in one node,
        larger ones on ceil(gpus / nodes_of) equal nodes.
    leaf_by
        SWF: what names the team: "group", "user", "queue", "partition" or "none" (one team).
    tree
        YAML file with the budget tree; by default one leaf for each team, weighted by its GPU-time.
    rule
        Contracts, for traces that have none.
    strict
        Fail on the first bad row instead of counting it.
    start, days
        Only jobs submitted in [start, start + days). `start` is a date (Philly) or a time in the
        trace: text such as "12h", a timedelta or microseconds.
    duplicates
        Philly CSV, which names no job: "keep" or "drop" rows that are equal to an earlier one.

    Returns
    -------
    Imported
        `.world`, with everything that was filled in under `.world.assumptions`, and `.report`.

    Raises
    ------
    InvalidArgument
        The file cannot be read as this format, nothing usable is in it, or an option is wrong.
    OSError
        The file cannot be opened.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tiny.swf"
    >>> _ = path.write_text("1 0 -1 60 4 -1 -1 4 90 -1 1 1 1 -1 1 1 -1 -1" + chr(10))
    >>> load(path, gpus=8).world
    World(gpus=8, leaves=1, jobs=1)
    """
    options = Options(
        gpus=gpus,
        nodes_of=nodes_of,
        tree=tree,
        rule=rule or ContractRule(),
        strict=strict,
        days=days,
    )
    found = detect_format(path) if format == "auto" else format
    if found == "philly":
        begin = None if start is None else _philly.start_of_window(start)
        return _philly.read_philly(path, options, start=begin, duplicates=duplicates)
    if isinstance(start, datetime):
        raise InvalidArgument("start is a date, which only a Philly trace has")
    offset: int | None = None
    if isinstance(start, str):
        offset = parse_us(start, "start")
    elif start is not None:
        offset = to_us(start, "start")
    if found == "swf":
        return _swf.read_swf(path, options, leaf_by=leaf_by, start=offset)
    if found == "workload":
        return _workload.read_workload(path, options, start=offset)
    raise InvalidArgument(f"format is {format!r}, must be auto or one of {', '.join(FORMATS)}")
