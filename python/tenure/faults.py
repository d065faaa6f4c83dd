# SPDX-License-Identifier: Apache-2.0
"""What breaks in a simulated cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from tenure import _core
from tenure._time import HOUR, Time, parse_us, to_us
from tenure.errors import InvalidArgument

__all__ = ["Faults", "Maintenance"]


@dataclass(frozen=True, kw_only=True)
class Maintenance:
    """Hosts [first_node, first_node + nodes) are down in [begin, end).

    They take nothing new that would still be protected then, from `announced` before it on.
    """

    first_node: int
    nodes: int
    begin: Time
    end: Time
    announced: Time = 12 * HOUR


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Faults of hosts and of resumed runs. The same seed gives every policy the same faults.

    Parameters
    ----------
    mean_uptime
        Of a host, until it breaks; 0: none ever does.
    hard_permille
        Faults that take the host down at once, in thousandths. The others leave it unhealthy: it
        takes nothing new and has to be empty before it is repaired.
    mean_unhealthy
        Until an unhealthy host that is still occupied fails by itself.
    mean_repair
        Of an empty host.
    negotiate_after
        An unhealthy host occupied for so long needs a person who talks to the owners, unless the
        policy bounds how long that can last.
    failed_resume_permille
        Attempts to resume a stopped run that fail, in thousandths; each costs the restart overhead
        once more.
    seed
        Of the faults.
    maintenance
        Windows known beforehand.

    >>> Faults.from_options(["mean_uptime=60d", "hard_permille=500"]).hard_permille
    500
    """

    mean_uptime: Time = 0
    hard_permille: int = 300
    mean_unhealthy: Time = 24 * HOUR
    mean_repair: Time = 8 * HOUR
    negotiate_after: Time = 4 * HOUR
    failed_resume_permille: int = 0
    seed: int = 1
    maintenance: tuple[Maintenance, ...] = ()

    @classmethod
    def from_options(cls, options: Iterable[str]) -> Faults:
        """Read "KEY=VALUE" texts; a time looks like "60d". InvalidArgument names the option."""
        values: dict[str, Time] = {}
        known = {f.name for f in fields(cls)} - {"maintenance"}
        for text in options:
            key, equals, value = text.partition("=")
            if not equals or key not in known:
                raise InvalidArgument(
                    f"faults {text!r} must be KEY=VALUE with one of {', '.join(sorted(known))}"
                )
            if key in _DURATIONS:
                values[key] = parse_us(value, key)
                continue
            try:
                values[key] = int(value)
            except ValueError:
                raise InvalidArgument(f"faults {text!r}: {value!r} is not a number") from None
        return cls(**values)  # type: ignore[arg-type]

    def _to_core(self) -> _core.FaultOptions:
        out = _core.FaultOptions()
        for name in _DURATIONS:
            setattr(out, f"{name}_us", to_us(getattr(self, name), name))
        try:
            out.hard_permille = self.hard_permille
            out.failed_resume_permille = self.failed_resume_permille
            out.seed = self.seed
        except TypeError:
            raise InvalidArgument(f"not integers of 64 bits: {self}") from None
        out.set_maintenance(
            [
                (w.first_node, w.nodes, to_us(w.begin, "begin"), to_us(w.end, "end"),
                 to_us(w.announced, "announced"))
                for w in self.maintenance
            ]
        )  # fmt: skip
        return out


_DURATIONS = ("mean_uptime", "mean_unhealthy", "mean_repair", "negotiate_after")
