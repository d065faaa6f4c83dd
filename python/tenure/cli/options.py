# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have, as groups; each is defined here once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from tenure._time import parse_us
from tenure.cli.app import console
from tenure.errors import InvalidArgument
from tenure.faults import Faults
from tenure.gaming import GAME_STRATEGIES
from tenure.importers import ContractRule, Imported, load
from tenure.simulation import policies as known_policies
from tenure.world import SCENARIOS, World, generate

Seeds = Annotated[str | None, typer.Option(help="Such as 1-5 or 1,4,9.")]
Jobs = Annotated[int, typer.Option(help="Processes; 0 = one for each CPU.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the figures here.")]
PlotFile = Annotated[
    Path | None, typer.Option("--plot", help="Draw the figures here (PNG; needs matplotlib).")
]

# Options of `generate` that are given as --world KEY=VALUE, and how they are read.
_WORLD: dict[str, Callable[[str], Any]] = {
    "freeload": float, "debug_per_day": int, "nodes_per_rack": int, "mincap": parse_us,
    "leaves": int, "levels": int, "largest_percent": int,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Generated:
    """A generated workload."""

    load: Annotated[float, typer.Option(help="Peak factor of the generated demand.")] = 1.3
    warmup_days: Annotated[
        int, typer.Option(help="Days before the measured time (generated only).")
    ] = 7
    world: Annotated[
        list[str] | None,
        typer.Option(help=f"KEY=VALUE of the generated work: {', '.join(_WORLD)}."),
    ] = None

    def options(self) -> dict[str, Any]:
        """Keyword arguments of `generate` but for seed, days and cluster."""
        out: dict[str, Any] = {"load": self.load, "warmup_days": self.warmup_days}
        for text in self.world or ():
            key, equals, value = text.partition("=")
            if not equals or key not in _WORLD:
                raise InvalidArgument(
                    f"--world {text!r} must be KEY=VALUE with one of {', '.join(_WORLD)}"
                )
            try:
                out[key] = _WORLD[key](value)
            except ValueError:
                raise InvalidArgument(f"--world {text!r}: {value!r} is not a number") from None
        return out


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Its size."""

    gpus: Annotated[
        int | None, typer.Option(help="GPUs of the cluster. Default: 1024, or what a trace says.")
    ] = None
    nodes_of: Annotated[int, typer.Option(help="GPUs of a node.")] = 8

    def options(self) -> dict[str, Any]:
        """The same for `generate`."""
        if self.gpus is None and self.nodes_of == 8:
            return {}
        return {"gpus": self.gpus or 1024, "gpus_per_node": self.nodes_of}


@dataclass(frozen=True, kw_only=True)
class TraceReading:
    """How a trace is read."""

    format: Annotated[
        str, typer.Option(help="Format of the trace: auto, swf, philly, workload.")
    ] = "auto"
    leaf_by: Annotated[
        str, typer.Option(help="SWF: what names a team: group, user, queue, partition, none.")
    ] = "group"
    tree: Annotated[
        Path | None, typer.Option(help="YAML file with the budget tree of a trace.")
    ] = None
    rule: Annotated[
        list[str] | None,
        typer.Option(help="KEY=VALUE of the rule that gives jobs of a trace their contract."),
    ] = None
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail on the first bad row of a trace.")
    ] = False
    start: Annotated[
        str | None,
        typer.Option("--from", help="First date (Philly) or time (like 12h) of a trace."),
    ] = None
    duplicates: Annotated[str, typer.Option(help="Equal rows of a Philly CSV: keep or drop.")] = (
        "keep"
    )

    def load(self, trace: Path, cluster: Cluster, days: int | None) -> Imported:
        return load(
            trace, format=self.format, gpus=cluster.gpus, nodes_of=cluster.nodes_of,
            leaf_by=self.leaf_by, tree=self.tree, rule=ContractRule.from_options(self.rule or ()),
            strict=self.strict, start=self.start, days=days, duplicates=self.duplicates,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the work comes from."""

    scenario: Annotated[
        str | None, typer.Option(help=f"Generated workload: {', '.join(SCENARIOS)}.")
    ] = None
    trace: Annotated[
        Path | None,
        typer.Option(help="Trace: SWF, Philly CSV/JSON or a workload file; may be gzip."),
    ] = None
    days: Annotated[
        int | None, typer.Option(help="Measured days. Default: 30, or the whole trace.")
    ] = None

    def chosen(self) -> str:
        """The scenario, or "trace"."""
        if self.scenario is not None and self.trace is not None:
            raise InvalidArgument("--scenario and --trace exclude each other")
        return "trace" if self.trace is not None else self.scenario or SCENARIOS[0]


def generate_options(source: Source, generated: Generated, cluster: Cluster) -> dict[str, Any]:
    """Keyword arguments of `generate` but for the seed."""
    days = 30 if source.days is None else source.days
    return {"days": days, **generated.options(), **cluster.options()}


def one_world(
    source: Source, generated: Generated, cluster: Cluster, reading: TraceReading, seed: int | None
) -> World:
    """The world that the options describe; of a trace the report is printed."""
    scenario = source.chosen()
    if source.trace is None:
        options = generate_options(source, generated, cluster)
        return generate(scenario, seed=1 if seed is None else seed, **options)
    if seed is not None:
        raise InvalidArgument("a seed is for generated scenarios")
    imported = reading.load(source.trace, cluster, source.days)
    console(stderr=True).print(escape("\n".join(imported.report.lines())), soft_wrap=True)
    return imported.world


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What happens around the scheduler, and how policies are set."""

    notice: Annotated[
        int,
        typer.Option(
            "--notice-permille",
            help="Part of the jobs that save their work at a stop, in thousandths.",
        ),
    ] = 0
    idle_nights: Annotated[
        int,
        typer.Option(
            "--idle-nights-permille",
            help="Part of the sessions that are idle from 20:00 to 9:00, in thousandths.",
        ),
    ] = 0
    fault: Annotated[
        list[str] | None,
        typer.Option("--faults", help="KEY=VALUE of what breaks, such as mean_uptime=60d."),
    ] = None
    game: Annotated[
        str | None,
        typer.Option(help=f"STRATEGY@LEAF: a team that games; {', '.join(GAME_STRATEGIES[1:])}."),
    ] = None
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="POLICY.KEY=VALUE; may be repeated.")
    ] = None

    def parameters(self, policies: list[str]) -> dict[str, dict[str, str]]:
        """Parameters by policy; all of `policies` must be known."""
        known = known_policies()
        for name in policies:
            if name not in known:
                raise InvalidArgument(f"unknown policy {name!r}, known: {', '.join(known)}")
        return parse_settings(self.set_ or [], policies)

    def faults(self) -> Faults | None:
        return Faults.from_options(self.fault) if self.fault else None

    def played(self) -> tuple[str, int | str] | None:
        """Strategy and leaf of the team that games."""
        if self.game is None:
            return None
        strategy, at, leaf = self.game.partition("@")
        if not at or strategy not in GAME_STRATEGIES:
            raise InvalidArgument(
                f"--game {self.game!r} must be STRATEGY@LEAF with one of "
                f"{', '.join(GAME_STRATEGIES)}"
            )
        return strategy, int(leaf) if leaf.isdigit() else leaf

    def options(self) -> Mapping[str, Any]:
        """Keyword arguments of `compare`."""
        return {
            "notice_permille": self.notice,
            "idle_nights_permille": self.idle_nights,
            "faults": self.faults(),
            "game": self.played(),
        }


def parse_policies(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def parse_seeds(text: str) -> list[int]:
    """Read "1-5", "3" or "1,4,7-9".

    >>> parse_seeds("1,4,7-9")
    [1, 4, 7, 8, 9]
    """
    out: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", part)
        if not match:
            raise InvalidArgument(
                f"seeds {text!r}: {part!r} is neither a number nor a range like 1-5"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= 10_000:
            raise InvalidArgument(
                f"seeds {text!r}: range {part!r} must go up, by fewer than 10,000"
            )
        out.extend(range(first, last + 1))
    return out


def parse_settings(settings: Iterable[str], policies: list[str]) -> dict[str, dict[str, str]]:
    """Read "POLICY.KEY=VALUE" texts; unknown policies and keys are InvalidArgument."""
    known = known_policies()
    out: dict[str, dict[str, str]] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        policy, dot, key = name.partition(".")
        if not equals or not dot:
            raise InvalidArgument(f"--set {text!r} must be POLICY.KEY=VALUE")
        if policy not in policies:
            raise InvalidArgument(f"--set {text!r}: policy {policy!r} is not among those that run")
        keys = [p.name for p in known.get(policy, ())]
        if key not in keys:
            raise InvalidArgument(
                f"--set {text!r}: policy {policy!r} has no parameter {key!r}, "
                f"it has: {', '.join(keys) or 'none'}"
            )
        out.setdefault(policy, {})[key] = value
    return out
