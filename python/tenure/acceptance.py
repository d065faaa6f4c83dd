# SPDX-License-Identifier: Apache-2.0
"""Bounds on figures, agreed on beforehand, and whether a policy keeps them.

A file::

    work:                          # options of `generate`, or of a trace: path, gpus, ...
      load: 1.3
      seeds: [1, 2, 3]
    policy: budget                 # the default
    parameters: {quantum: 30m}     # of the policy
    conditions:                    # options of `simulate`
      notice_permille: 0
      faults: {mean_uptime: 60d}
    bounds:                        # on the mean over the seeds, or on every one of them
      owed_cum: {min: 0.98}
      wait_s.debug.p90: {max: 30}
      promises_broken: {max: 0, every: true}
    against:                       # other policies: their figure is 1
      ai2:
        preemptions_per_job: {max: 0.2}

Figures have the names of `tenure compare --json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tenure._yaml import Place, read_model
from tenure.cases import Case, run_cases
from tenure.comparison import mean
from tenure.errors import InvalidArgument
from tenure.faults import Faults
from tenure.simulation import Progress, figures

__all__ = ["Acceptance", "Verdict", "read_acceptance"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BoundModel(_Strict):
    """At least one of `min` and `max`."""

    min: float | None = None
    max: float | None = None
    every: bool = False

    @model_validator(mode="after")
    def _some(self) -> BoundModel:
        if self.min is None and self.max is None:
            raise ValueError("a bound needs min or max")
        return self


class ConditionsModel(_Strict):
    notice_permille: Annotated[int, Field(ge=0, le=1000)] = 0
    idle_nights_permille: Annotated[int, Field(ge=0, le=1000)] = 0
    faults: dict[str, str | int] = {}


class AcceptanceModel(_Strict):
    """The whole file."""

    work: dict[str, Any] = {}
    policy: str = "budget"
    parameters: dict[str, str | int | float | bool] = {}
    conditions: ConditionsModel = ConditionsModel()
    bounds: Annotated[dict[str, BoundModel], Field(min_length=1)]
    against: dict[str, dict[str, BoundModel]] = {}


@dataclass(frozen=True)
class Verdict:
    """One bound and what was measured. `value` is what is held against it: the mean over the
    seeds, or the worst of them; None where there was nothing to measure, which keeps no bound."""

    figure: str
    against: str | None
    minimum: float | None
    maximum: float | None
    every: bool
    mean: float | None
    value: float | None

    @property
    def kept(self) -> bool:
        if self.value is None:
            return False
        low = self.minimum is None or self.value >= self.minimum
        return low and (self.maximum is None or self.value <= self.maximum)


@dataclass(frozen=True)
class Acceptance:
    """An acceptance file that has been read."""

    path: str
    model: AcceptanceModel
    place: Place

    def check(
        self, *, executor: Executor | None = None, progress: Progress | None = None
    ) -> list[Verdict]:
        """Simulate and compare.

        Raises
        ------
        InvalidArgument
            The work, a policy or a parameter is not valid, or there is no figure of that name.
        """
        model = self.model
        policies = [model.policy, *(name for name in model.against if name != model.policy)]
        work = dict(model.work)
        seeds = work.pop("seeds", [1, 2, 3])
        if not isinstance(seeds, list) or not seeds:
            raise self._bad(("work", "seeds"), "must be a list of numbers")
        trace = "path" in work
        worlds = [work] if trace else [{**work, "seed": seed} for seed in seeds]
        faults = model.conditions.faults
        cases = [
            Case(
                policy=policy,
                parameters=model.parameters if policy == model.policy else {},
                scenario="trace" if trace else "institute",
                world=world,
                simulation={
                    "notice_permille": model.conditions.notice_permille,
                    "idle_nights_permille": model.conditions.idle_nights_permille,
                },
                faults=Faults.from_options(f"{k}={v}" for k, v in faults.items())
                if faults
                else None,
            )
            for world in worlds
            for policy in policies
        ]
        try:
            done = run_cases(cases, executor=executor, progress=progress)
        except TypeError as error:
            raise self._bad(("work",), str(error)) from None
        rows = {
            policy: [figures(done[i].result) for i in range(k, len(done), len(policies))]
            for k, policy in enumerate(policies)
        }
        own = rows[model.policy]
        verdicts = [
            self._verdict(name, None, bound, [row[name] for row in own])
            for name, bound in model.bounds.items()
            if self._known(name, own[0], ("bounds", name))
        ]
        for policy, bounds in model.against.items():
            for name, bound in bounds.items():
                self._known(name, own[0], ("against", policy, name))
                ratios = [
                    _ratio(mine[name], other[name])
                    for mine, other in zip(own, rows[policy], strict=True)
                ]
                verdicts.append(self._verdict(name, policy, bound, ratios))
        return verdicts

    def _bad(self, loc: Sequence[int | str], text: str) -> InvalidArgument:
        line, key = self.place(loc)
        return InvalidArgument(f"{self.path}:{line}: {key}: {text}")

    def _known(self, name: str, row: dict[str, float | None], loc: Sequence[int | str]) -> bool:
        if name not in row:
            raise self._bad(loc, f"no figure {name!r}")
        return True

    @staticmethod
    def _verdict(
        name: str, against: str | None, bound: BoundModel, values: Sequence[float | None]
    ) -> Verdict:
        present = [v for v in values if v is not None]
        average = mean(present)
        value = average
        if bound.every and present:
            # The one that is furthest out.
            value = min(present) if bound.min is not None else max(present)
            if bound.min is not None and bound.max is not None and value >= bound.min:
                value = max(present)
        return Verdict(name, against, bound.min, bound.max, bound.every, average, value)


def _ratio(mine: float | None, other: float | None) -> float | None:
    if mine is None or other is None or (other == 0 and mine == 0):
        return None
    return float("inf") if other == 0 else mine / other


def read_acceptance(path: str | Path) -> Acceptance:
    """Read a file; InvalidArgument "FILE:LINE: KEY: what is wrong"."""
    model, place = read_model(path, AcceptanceModel)
    return Acceptance(str(path), model, place)
