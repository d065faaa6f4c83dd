# SPDX-License-Identifier: Apache-2.0
"""What is simulated for which table: each table is a list of lines, each line a case a seed.

Cases that several tables have (the default policy at the same load on the same seed) are equal, and
simulated once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenure.cases import Case
from tenure.faults import Faults

HOUR = 3_600_000_000
DAY = 24 * HOUR

POLICIES = ("priority", "fifo-easy", "fairtree", "fairtree-preempt", "ai2", "hier", "budget")
LOADS = (1.3, 1.5, 1.7)


@dataclass(frozen=True)
class Line:
    """A line of a table: the same thing on several seeds."""

    label: str
    cases: tuple[Case, ...]
    group: str = ""  # lines of one group belong together


@dataclass(frozen=True)
class Experiment:
    """The lines of one table and the seeds of their cases."""

    name: str
    lines: tuple[Line, ...]
    seeds: tuple[int, ...] = field(default=())


def line(
    label: str,
    seeds: Sequence[int],
    load: float,
    policy: str = "budget",
    parameters: Mapping[str, object] | None = None,
    *,
    world: Mapping[str, Any] | None = None,
    simulation: Mapping[str, Any] | None = None,
    faults: Faults | None = None,
    game: tuple[str, int] | None = None,
    group: str = "",
) -> Line:
    return Line(
        label,
        tuple(
            Case(
                policy=policy,
                parameters=parameters or {},
                world={"load": load, "seed": seed, **(world or {})},
                simulation=simulation or {},
                faults=faults,
                game=game,
            )
            for seed in seeds
        ),
        group or f"{load}",
    )


def published(seeds: Sequence[int]) -> Experiment:
    return Experiment(
        "published",
        tuple(line(policy, seeds, load, policy) for load in LOADS for policy in POLICIES),
        tuple(seeds),
    )


def notice(seeds: Sequence[int]) -> Experiment:
    """Saving at a stop: nobody but sessions, or all."""
    lines = [
        line(f"{policy}, {share}", seeds, load, policy, simulation=simulation)
        for load in (1.3, 1.7)
        for policy in ("ai2", "budget")
        for share, simulation in (
            ("sessions only", {}),
            ("sessions only, reported", {"report_restorable": True}),
            ("all", {"notice_permille": 1000}),
            ("all, reported", {"notice_permille": 1000, "report_restorable": True}),
        )
    ]
    return Experiment("notice", tuple(lines), tuple(seeds))


# What is switched off, in the words of the README and as parameters of `budget`.
ABLATIONS: tuple[tuple[str, dict[str, str]], ...] = (
    ("default", {}),
    ("no reservations", {"gang": "0"}),
    ("no reservations of blocks (8-63 GPUs)", {"block": "0"}),
    ("first reservation without credit", {"first_credit": "0s"}),
    ("restarts with 2 h of credit beyond the minimum", {"restart_credit": "2h"}),
    ("no lane", {"lane_permille": "0"}),
    ("no express", {"express": "false"}),
    ("no shield for sessions", {"session_permille": "0"}),
    ("no back-off", {"backoff": "0"}),
    ("no quantum after the minimum", {"quantum": "0s"}),
    ("no wait for checkpoints", {"checkpoint_wait": "0s"}),
    ("no guard against thrash (last three)",
     {"backoff": "0", "quantum": "0s", "checkpoint_wait": "0s"}),
    ("no controller (gain 0)", {"gain": "0s"}),
    ("no nominal floor", {"nominal_permille": "0"}),
    ("no cap on debug work", {"debug_cap": "0"}),
    ("sessions capped at 30 % of the entitlement", {"session_cap": "300"}),
    ("key gap never stops anybody", {"big_gap": "8760h"}),
    ("key gap of 12 h", {"big_gap": "12h"}),
    ("keys level by level", {"level_by_level": "true"}),
)  # fmt: skip


def ablation(seeds: Sequence[int]) -> Experiment:
    lines = [
        line(label, seeds, load, parameters=parameters)
        for load in (1.3, 1.7)
        for label, parameters in ABLATIONS
    ]
    return Experiment("ablation", tuple(lines), tuple(seeds))


def presets(seeds: Sequence[int]) -> Experiment:
    lines = [
        line(policy, seeds, load, policy)
        for load in (1.3, 1.7)
        for policy in ("ai2", "hier", "responsive", "lag", "budget")
    ]
    return Experiment("presets", tuple(lines), tuple(seeds))


def borrowed(seeds: Sequence[int]) -> Experiment:
    """What a team starts beyond its entitlement is protected for less."""
    lines = [
        line(
            "no cap" if hours == 0 else f"{hours} h", seeds, load,
            parameters={} if hours == 0 else {"borrowed_cap": f"{hours}h"},
        )
        for load in (1.3, 1.7)
        for hours in (1, 2, 4, 0)
    ]  # fmt: skip
    return Experiment("borrowed", tuple(lines), tuple(seeds))


def caps(seeds: Sequence[int]) -> Experiment:
    """Users who want the longest minimum declare the cap."""
    lines = [
        line(
            f"{hours} h", seeds, load,
            parameters={} if hours == 8 else {"cap": f"{hours}h"},
            world={} if hours == 8 else {"mincap": hours * HOUR},
        )
        for load in (1.3, 1.7)
        for hours in (1, 2, 4, 8, 12, 24)
    ]  # fmt: skip
    return Experiment("caps", tuple(lines), tuple(seeds))


def windows(seeds: Sequence[int]) -> Experiment:
    lines = [
        line(
            f"{days} d", seeds, load,
            parameters={} if days == 7 else {"lookback": f"{24 * days}h"},
        )
        for load in (1.3, 1.7)
        for days in (1, 3, 7, 14)
    ]  # fmt: skip
    return Experiment("windows", tuple(lines), tuple(seeds))


def loads(seeds: Sequence[int]) -> Experiment:
    lines = [
        line(f"{load}", seeds, load, policy, group=policy)
        for policy in ("fairtree", "ai2", "budget")
        for load in (1.0, 1.3, 1.5, 1.7, 2.0)
    ]
    return Experiment("loads", tuple(lines), tuple(seeds))


def hosts(seeds: Sequence[int]) -> Experiment:
    """Hosts that fail or turn unhealthy, and resumed runs of which some fail."""
    lines = [
        line(
            policy, seeds, load, policy, group=f"{load}, {days} d",
            faults=Faults(mean_uptime=days * DAY, failed_resume_permille=20),
        )
        for load, days in ((1.3, 60), (1.7, 60), (1.7, 15))
        for policy in ("priority", "fairtree-preempt", "ai2", "budget")
    ]  # fmt: skip
    return Experiment("hosts", tuple(lines), tuple(seeds))


# Leaves that play, by share: 12 %, 7 %, 3 %.
GAMERS = ((3, "vision/multimodal"), (4, "vision/generation"), (12, "platform/systems"))
GAMES = ("inflate", "split", "pieces", "resubmit", "hold", "subaccounts", "high", "lane")


def gaming(seeds: Sequence[int]) -> Experiment:
    lines = [line("honest", seeds, 1.5, group="honest")]
    lines += [
        line(strategy, seeds, 1.5, game=(strategy, leaf), group=path)
        for leaf, path in GAMERS
        for strategy in GAMES
    ]
    lines.append(line("honest", seeds, 1.5, "ai2", group="ai2: honest"))
    lines += [
        line(strategy, seeds, 1.5, "ai2", game=(strategy, 4), group="ai2: vision/generation")
        for strategy in ("inflate", "split", "resubmit", "hold", "high")
    ]
    return Experiment("gaming", tuple(lines), tuple(seeds))


def nights(seeds: Sequence[int]) -> Experiment:
    """Honest sessions that sleep from 20:00 to 9:00."""
    lines = [
        line(
            f"{policy}, {share} asleep at night", seeds, load, policy,
            simulation={"idle_nights_permille": permille} if permille else {},
        )
        for load in (1.3, 1.7)
        for policy, share, permille in (
            ("budget", "none", 0), ("budget", "half", 500), ("budget", "all", 1000),
            ("ai2", "none", 0), ("ai2", "half", 500),
        )
    ]  # fmt: skip
    return Experiment("nights", tuple(lines), tuple(seeds))


SHAPES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("institute: 15 leaves, 2 levels", {}),
    ("3 leaves, 1 level", {"leaves": 3, "levels": 1}),
    ("15 leaves, 1 level", {"leaves": 15, "levels": 1}),
    ("40 leaves, 3 levels", {"leaves": 40, "levels": 3}),
    ("120 leaves, 4 levels", {"leaves": 120, "levels": 4}),
    ("300 leaves, 5 levels, most smaller than a job", {"leaves": 300, "levels": 5}),
    ("15 leaves, one of 90 %", {"leaves": 15, "levels": 2, "largest_percent": 90}),
    ("institute, 88 GPUs", {"gpus": 88, "nodes_per_rack": 0}),
    ("institute, 4,096 GPUs", {"gpus": 4096}),
)


def shapes(seeds: Sequence[int]) -> Experiment:
    lines = [
        line(policy, seeds, 1.5, policy, world=world, group=label)
        for label, world in SHAPES
        for policy in ("ai2", "budget")
        if policy == "budget" or not world or "gpus" in world or "largest_percent" in world
    ]
    return Experiment("shapes", tuple(lines), tuple(seeds))


def philly(data: Path) -> Experiment:
    """The published month of the Philly cluster on clusters of three sizes."""
    lines = [
        Line(
            policy,
            (
                Case(
                    policy=policy,
                    scenario="trace",
                    world={"path": str(data / "philly_30d.swf.gz"), "gpus": gpus},
                ),
            ),
            group=f"{gpus:,} GPUs",
        )
        for gpus in (256, 320, 1024)
        for policy in ("fifo-easy", "fairtree", "ai2", "budget")
    ]
    return Experiment("philly", tuple(lines))


def forecasts(seeds: Sequence[int]) -> Experiment:
    """From declared minimums, and from requested run times."""
    lines = [
        line(
            basis, seeds, load,
            simulation={"forecast_interval": 2 * HOUR, "forecast_limits": limits},
        )
        for load in (1.3, 1.7)
        for basis, limits in (("minimums", False), ("requested times", True))
    ]  # fmt: skip
    return Experiment("forecasts", tuple(lines), tuple(seeds))
