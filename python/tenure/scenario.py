# SPDX-License-Identifier: Apache-2.0
"""Scenario files: a small cluster, what happens on it, and what must come of it."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from tenure import _core
from tenure.errors import InvalidArgument

__all__ = ["ScenarioCase", "ScenarioReport", "replay"]


@dataclass(frozen=True)
class ScenarioCase:
    """One case of a scenario file.

    `failures` are lines `file:line: what was expected and what came`; `log` has one decision a
    line. A case that does not speak of the policy is `skipped`, and `skip_reason` says why.
    """

    name: str
    skipped: bool
    skip_reason: str
    checks: int
    failures: tuple[str, ...]
    log: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True if nothing failed (also if the case was skipped)."""
        return not self.failures


@dataclass(frozen=True)
class ScenarioReport:
    """What came of a scenario file under one policy."""

    title: str
    policy: str
    cases: tuple[ScenarioCase, ...]

    @property
    def passed(self) -> bool:
        """True if no case failed."""
        return all(case.passed for case in self.cases)

    @property
    def failures(self) -> tuple[str, ...]:
        """Those of all cases."""
        return tuple(failure for case in self.cases for failure in case.failures)


def replay(
    source: str | PathLike[str], *, policy: str = "budget", repeat: bool = True
) -> ScenarioReport:
    """Run a scenario file and say what differs from its expectations.

    Parameters
    ----------
    source
        The path of a file, or, if it has a line break, the text itself.
    policy
        A preset of the scheduler: "budget", "ai2", "hier", "responsive" or "lag".
    repeat
        Also run every case with a snapshot and restore after every instant and with the order of
        equal input shuffled; the decisions must be the same.

    Raises
    ------
    InvalidArgument
        The text is no scenario ("file:line: ..."), the file cannot be read, or there is no such
        policy. A failed expectation is not raised: see `ScenarioReport.failures`.

    Examples
    --------
    >>> report = replay('''
    ... cluster: [{name: n1, gpus: 8}]
    ... tree: {A: 1}
    ... timeline:
    ...   - at: 0
    ...     submit: {name: j, team: A, gpus: 8, minimum: 1h}
    ...     expect: {running: j}
    ... ''')
    >>> report.passed, report.cases[0].log
    (True, ('0s start j on n1',))
    """
    text, file = str(source), "scenario"
    if "\n" not in text:
        file = text
        try:
            text = Path(source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"{file}: cannot be read: {error}") from error
    title, cases = _core.run_scenario(text, policy, file, repeat)
    return ScenarioReport(
        title,
        policy,
        tuple(
            ScenarioCase(name, skipped, reason, checks, tuple(failures), tuple(log))
            for name, skipped, reason, checks, failures, log in cases
        ),
    )
