# SPDX-License-Identifier: Apache-2.0
"""How jobs of a trace that knows no scheduling contract get one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Literal

import polars as pl

from tenure._time import HOUR, MINUTE, Time, format_us, parse_us, to_us
from tenure.errors import InvalidArgument
from tenure.world import JOB_FLAGS, WORKLOAD_CLASSES

__all__ = ["ContractRule"]

_TIMES = (
    "minimum_low", "minimum_high", "debug_time", "debug_minimum", "checkpoint_max", "restart",
    "patience",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ContractRule:
    """The contract of a job from its size and time, where the trace does not say.

    Parameters
    ----------
    base
        "requested": time means the requested wall time where there is one, else the true run time;
        "true": always the true run time.
    minimum_fraction, minimum_low, minimum_high
        Minimum runtime = time x fraction, clamped to [low, high].
    debug_gpus, debug_time, debug_minimum
        Jobs of at most `debug_gpus` GPUs and `debug_time` are of class debug, with this minimum,
        and not resumable.
    resumable, checkpoint_max, checkpoint_fraction, restart
        Other jobs can be resumed, from checkpoints every min(checkpoint_max, minimum x fraction),
        with this overhead.
    checkpoint_on_notice
        Resumable jobs save their work within the grace of a stop.
    unfunded_teams, interactive_queues
        Teams whose jobs get minimum 0 and class sweep; queues whose jobs get class interactive.
    missing_limit
        "runtime": a job without a requested wall time gets its true run time as the limit (a
        perfect estimate, which favours the baselines that backfill with it); "none": it has no
        limit.
    patience
        Jobs that have not started by then are withdrawn; 0 = never.

    Times are timedeltas or integer microseconds.

    >>> ContractRule(minimum_fraction=Fraction(1, 2)).minimum_high
    28800000000
    """

    base: Literal["requested", "true"] = "requested"
    minimum_fraction: Fraction = Fraction(1, 4)
    minimum_low: Time = 15 * MINUTE
    minimum_high: Time = 8 * HOUR
    debug_gpus: int = 8
    debug_time: Time = 15 * MINUTE
    debug_minimum: Time = 15 * MINUTE
    resumable: bool = True
    checkpoint_max: Time = 60 * MINUTE
    checkpoint_fraction: Fraction = Fraction(2, 3)
    restart: Time = 5 * MINUTE
    checkpoint_on_notice: bool = False
    unfunded_teams: tuple[str, ...] = ()
    interactive_queues: tuple[str, ...] = ()
    missing_limit: Literal["runtime", "none"] = "runtime"
    patience: Time = 0

    def __post_init__(self) -> None:
        for name in _TIMES:
            us = to_us(getattr(self, name), name)
            if us < 0:
                raise InvalidArgument(f"{name} is {us} us, must not be negative")
            object.__setattr__(self, name, us)
        for name in ("minimum_fraction", "checkpoint_fraction"):
            value = Fraction(getattr(self, name)).limit_denominator(10_000)
            if not 0 < value <= 1:
                raise InvalidArgument(f"{name} is {value}, must be in (0, 1]")
            object.__setattr__(self, name, value)
        if to_us(self.minimum_low) > to_us(self.minimum_high):
            raise InvalidArgument(
                f"minimum_low {self.minimum_low} us exceeds minimum_high {self.minimum_high} us"
            )
        if to_us(self.minimum_low) == 0 or to_us(self.debug_minimum) == 0:
            raise InvalidArgument("minimum_low and debug_minimum must be positive")
        if self.base not in ("requested", "true"):
            raise InvalidArgument(f"base is {self.base!r}, must be requested or true")
        if self.missing_limit not in ("runtime", "none"):
            raise InvalidArgument(
                f"missing_limit is {self.missing_limit!r}, must be runtime or none"
            )

    @classmethod
    def from_options(cls, options: Iterable[str]) -> ContractRule:
        """Build a rule from texts such as "minimum_fraction=1/2" or "restart=10m".

        >>> ContractRule.from_options(["restart=10m"]).restart
        600000000
        """
        known = [f.name for f in fields(cls)]
        values: dict[str, Any] = {}
        for option in options:
            key, equals, text = option.partition("=")
            if not equals or key not in known:
                raise InvalidArgument(
                    f"rule {option!r}: must be KEY=VALUE, keys: {', '.join(known)}"
                )
            values[key] = _parse(key, text)
        return replace(cls(), **values)

    def sentences(self) -> list[str]:
        """The rule in words, for the assumptions of a world."""
        limit = (
            "its true run time as limit (a perfect estimate)"
            if self.missing_limit == "runtime"
            else "no limit"
        )
        of = "requested (else true) run time" if self.base == "requested" else "true run time"
        out = [
            f"minimum runtime = {self.minimum_fraction} of the {of}, "
            f"{_text(self.minimum_low)} to {_text(self.minimum_high)}",
            f"jobs of <= {self.debug_gpus} GPUs and <= {_text(self.debug_time)} are class debug, "
            f"minimum {_text(self.debug_minimum)}, not resumable",
        ]
        if self.resumable:
            notice = ", and on notice" if self.checkpoint_on_notice else ""
            out.append(
                f"other jobs are resumable: checkpoint every min({_text(self.checkpoint_max)}, "
                f"{self.checkpoint_fraction} of the minimum){notice}, "
                f"restart overhead {_text(self.restart)}"
            )
        else:
            out.append("no job is resumable")
        out.append(
            f"unfunded: the teams {', '.join(self.unfunded_teams)}"
            if self.unfunded_teams
            else "no job is unfunded"
        )
        if self.interactive_queues:
            out.append(f"interactive: the queues {', '.join(self.interactive_queues)}")
        out.append(f"a job without a requested wall time gets {limit}")
        out.append(
            f"jobs are withdrawn if not started after {_text(self.patience)}"
            if self.patience
            else "no job is withdrawn, however long it waits"
        )
        return out

    def columns(self) -> list[pl.Expr]:
        """Contract columns for a table with runtime_us, limit_us, gpus, team and queue."""
        limit, runtime = pl.col("limit_us"), pl.col("runtime_us")
        base = runtime
        if self.base == "requested":
            base = pl.when(limit > 0).then(limit).otherwise(runtime)
        unfunded = pl.col("team").is_in(list(self.unfunded_teams)).fill_null(False)
        interactive = pl.col("queue").is_in(list(self.interactive_queues)).fill_null(False)
        debug = ~interactive & (pl.col("gpus") <= self.debug_gpus) & (base <= self.debug_time)
        part = base * self.minimum_fraction.numerator // self.minimum_fraction.denominator
        minimum = (
            pl.when(unfunded)
            .then(0)
            .when(debug)
            .then(self.debug_minimum)
            .otherwise(part.clip(self.minimum_low, self.minimum_high))
            .cast(pl.Int64)
        )
        kind = (
            pl.when(unfunded)
            .then(WORKLOAD_CLASSES.index("sweep"))
            .when(debug)
            .then(WORKLOAD_CLASSES.index("debug"))
            .when(interactive)
            .then(WORKLOAD_CLASSES.index("interactive"))
            .otherwise(WORKLOAD_CLASSES.index("training"))
            .cast(pl.UInt32)
        )
        resumable = pl.lit(self.resumable) & (unfunded | ~debug)
        fraction = self.checkpoint_fraction
        interval = pl.min_horizontal(
            pl.lit(to_us(self.checkpoint_max)),
            pl.when(unfunded)
            .then(to_us(self.checkpoint_max))
            .otherwise(minimum * fraction.numerator // fraction.denominator),
        )
        saved = JOB_FLAGS["resumable"] | (
            JOB_FLAGS["checkpoint_on_notice"] if self.checkpoint_on_notice else 0
        )
        filled = runtime if self.missing_limit == "runtime" else pl.lit(0, pl.Int64)
        return [
            minimum.alias("minimum_us"),
            kind.alias("workload_class"),
            pl.when(resumable).then(interval).otherwise(0).cast(pl.Int64).alias("checkpoint_us"),
            pl.when(resumable).then(self.restart).otherwise(0).cast(pl.Int64).alias("restart_us"),
            pl.when(resumable).then(saved).otherwise(0).cast(pl.UInt32).alias("flags"),
            pl.when(limit > 0).then(limit).otherwise(filled).alias("limit_us"),
            pl.lit(to_us(self.patience), pl.Int64).alias("patience_us"),
        ]


def _text(value: Time) -> str:
    return format_us(to_us(value))


def _parse(key: str, text: str) -> Any:
    if key in _TIMES:
        return parse_us(text, f"rule {key}")
    try:
        if key.endswith("_fraction"):
            return Fraction(text)
        if key == "debug_gpus":
            return int(text)
    except (ValueError, ZeroDivisionError):
        raise InvalidArgument(f"rule {key} is {text!r}, must be a number") from None
    if key in ("resumable", "checkpoint_on_notice"):
        if text not in ("true", "false"):
            raise InvalidArgument(f"rule {key} is {text!r}, must be true or false")
        return text == "true"
    if key in ("unfunded_teams", "interactive_queues"):
        return tuple(part for part in text.split(",") if part)
    return text
