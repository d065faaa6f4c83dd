# SPDX-License-Identifier: Apache-2.0
"""The command `tenure`. Exit codes: 0 done, 1 something failed, 2 bad input."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tenure._time import format_us
from tenure._version import __version__
from tenure.comparison import Comparison
from tenure.comparison import compare as run_comparison
from tenure.errors import Cancelled, Error, Internal, InvalidArgument
from tenure.importers import ContractRule, Imported, load, write_workload
from tenure.scenario import replay as run_scenario
from tenure.simulation import Result
from tenure.simulation import policies as known_policies
from tenure.world import SCENARIOS, World
from tenure.world import generate as generate_world

app = typer.Typer(
    help="GPU-time budgets with a guaranteed minimum runtime: simulate and compare policies.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

P = ParamSpec("P")


def _console(*, stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = 140  # a file or a pipe: never cut a table
    return console


def _guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Turn exceptions into one line on stderr and an exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (Internal, Cancelled) as error:
            _fail(str(error), 1)
        except Error as error:
            _fail(str(error), 2)
        except OSError as error:
            if error.filename is None:
                raise
            _fail(f"{error.filename}: {(error.strerror or 'cannot be used').lower()}", 2)

    return run


def _fail(message: str, code: int) -> None:
    _console(stderr=True).print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True)
    raise typer.Exit(code)


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


def parse_settings(settings: list[str], policies: list[str]) -> dict[str, dict[str, str]]:
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


@contextmanager
def _progress(label: str) -> Iterator[Callable[[float], None]]:
    """A bar on stderr, only on a terminal."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task(label, total=1.0)
        yield lambda fraction: bar.update(task, completed=fraction)


@contextmanager
def _executor(jobs: int, tasks: int) -> Iterator[Executor | None]:
    """Processes for `jobs` (0 = one a CPU), or None for work here.

    New interpreters, not forks: a fork of a process that has threads can hang.
    """
    if jobs < 0:
        raise InvalidArgument(f"--jobs is {jobs}, must not be negative")
    count = min(jobs or os.cpu_count() or 1, tasks)
    if count <= 1:
        yield None
        return
    pool = ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))
    with _ignored_interrupt():  # which the workers inherit: Ctrl-C is for this process
        for _ in range(count):
            pool.submit(os.getpid)
    try:
        yield pool
    except BaseException:
        for child in multiprocessing.active_children():
            child.terminate()
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


@contextmanager
def _ignored_interrupt() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _writable(path: Path | None) -> None:
    """Fail before long work rather than after it; makes the folder."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise InvalidArgument(f"{path}: cannot be written")


# Options that several commands share.
Scenario = Annotated[str | None, typer.Option(help=f"Generated workload: {', '.join(SCENARIOS)}.")]
Load = Annotated[float, typer.Option(help="Peak factor of the generated demand.")]
Days = Annotated[int | None, typer.Option(help="Measured days. Default: 30, or the whole trace.")]
Warmup = Annotated[int, typer.Option(help="Days before the measured time (generated only).")]
Trace = Annotated[
    Path | None, typer.Option(help="Trace: SWF, Philly CSV/JSON or a workload file; may be gzip.")
]
Format = Annotated[str, typer.Option(help="Format of the trace: auto, swf, philly, workload.")]
Gpus = Annotated[int | None, typer.Option(help="GPUs of the cluster a trace runs on.")]
NodesOf = Annotated[int, typer.Option(help="GPUs of a node.")]
LeafBy = Annotated[
    str, typer.Option(help="SWF: what names a team: group, user, queue, partition, none.")
]
Tree = Annotated[Path | None, typer.Option(help="YAML file with the budget tree of a trace.")]
Rule = Annotated[
    list[str] | None,
    typer.Option(help="KEY=VALUE of the rule that gives jobs of a trace their contract."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Fail on the first bad row of a trace.")]
Start = Annotated[
    str | None, typer.Option("--from", help="First date (Philly) or time (like 12h) of a trace.")
]
Duplicates = Annotated[str, typer.Option(help="Equal rows of a Philly CSV: keep or drop.")]
Notice = Annotated[
    int,
    typer.Option(
        "--notice-permille", help="Part of the jobs that save their work at a stop, in thousandths."
    ),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="POLICY.KEY=VALUE; may be repeated.")
]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the figures here.")]
PlotFile = Annotated[
    Path | None, typer.Option("--plot", help="Draw the figures here (PNG; needs matplotlib).")
]
Jobs = Annotated[int, typer.Option(help="Processes; 0 = one for each CPU.")]


def _load(
    trace: Path, format: str, gpus: int | None, nodes_of: int, leaf_by: str, tree: Path | None,
    rule: list[str] | None, strict: bool, start: str | None, days: int | None, duplicates: str,
) -> Imported:  # fmt: skip
    return load(
        trace, format=format, gpus=gpus, nodes_of=nodes_of, leaf_by=leaf_by, tree=tree,
        rule=ContractRule.from_options(rule or ()), strict=strict, start=start, days=days,
        duplicates=duplicates,
    )  # fmt: skip


def _one_source(scenario: str | None, trace: Path | None) -> str | None:
    if scenario is not None and trace is not None:
        raise InvalidArgument("--scenario and --trace exclude each other")
    return None if trace is not None else scenario or SCENARIOS[0]


def _run(
    scenario: str | None, load_factor: float, seeds: str | None, days: int | None,
    warmup_days: int, trace: Callable[[Path], Imported], trace_path: Path | None,
    policies: list[str], settings: list[str] | None, notice: int, jobs: int,
) -> tuple[Comparison, World | None]:  # fmt: skip
    """The comparison, and the world if it was a trace."""
    known = known_policies()
    for name in policies:
        if name not in known:
            raise InvalidArgument(f"unknown policy {name!r}, known: {', '.join(known)}")
    parameters = parse_settings(settings or [], policies)
    chosen = _one_source(scenario, trace_path)
    worlds: World | str
    options: dict[str, Any] = {}
    if trace_path is not None:
        if seeds is not None:
            raise InvalidArgument("--seeds is for generated scenarios")
        imported = trace(trace_path)
        _console(stderr=True).print(escape("\n".join(imported.report.lines())), soft_wrap=True)
        worlds = imported.world
    else:
        assert chosen is not None
        worlds = chosen
        options = {
            "seeds": parse_seeds(seeds or "1-3"),
            "load": load_factor,
            "days": 30 if days is None else days,
            "warmup_days": warmup_days,
        }
    tasks = len(policies) * len(options.get("seeds", [None]))
    with ExitStack() as stack:
        pool = stack.enter_context(_executor(jobs, tasks))
        report = stack.enter_context(_progress(f"{tasks} simulations"))
        comparison = run_comparison(
            worlds,
            policies,
            parameters=parameters,
            executor=pool,
            progress=report,
            notice_permille=notice,
            **options,
        )
    return comparison, worlds if isinstance(worlds, World) else None


def _save(comparison: Comparison, json_file: Path | None, plot_file: Path | None) -> None:
    if json_file is not None:
        json_file.write_text(comparison.to_json(), encoding="utf-8")
    if plot_file is not None:
        from tenure.plot import plot_comparison

        plot_comparison(comparison, plot_file)


def _before(json_file: Path | None, plot_file: Path | None) -> None:
    _writable(json_file)
    _writable(plot_file)
    if plot_file is not None:
        from tenure.plot import require_matplotlib

        require_matplotlib()


@app.command()
@_guarded
def compare(
    policies: Annotated[
        str, typer.Option(help="Names, separated by commas.")
    ] = "priority,fairtree,ai2,budget",
    scenario: Scenario = None,
    load: Load = 1.3,
    seeds: Annotated[str | None, typer.Option(help="Such as 1-5 or 1,4,9.")] = None,
    days: Days = None,
    warmup_days: Warmup = 7,
    trace: Trace = None,
    format: Format = "auto",
    gpus: Gpus = None,
    nodes_of: NodesOf = 8,
    leaf_by: LeafBy = "group",
    tree: Tree = None,
    rule: Rule = None,
    strict: Strict = False,
    start: Start = None,
    duplicates: Duplicates = "keep",
    notice: Notice = 0,
    set_: Settings = None,
    jobs: Jobs = 0,
    json_file: JsonFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Run several policies on the same work: means over seeds with 95 % intervals."""
    _before(json_file, plot_file)
    comparison, _ = _run(
        scenario, load, seeds, days, warmup_days,
        lambda path: _load(path, format, gpus, nodes_of, leaf_by, tree, rule, strict, start, days,
                           duplicates),
        trace, [p.strip() for p in policies.split(",") if p.strip()], set_, notice, jobs,
    )  # fmt: skip
    _print_comparison(comparison)
    _save(comparison, json_file, plot_file)


@app.command()
@_guarded
def simulate(
    policy: Annotated[str, typer.Option(help="Name of a policy.")] = "budget",
    scenario: Scenario = None,
    load: Load = 1.3,
    seed: Annotated[int | None, typer.Option(help="Seed of the generated workload.")] = None,
    days: Days = None,
    warmup_days: Warmup = 7,
    trace: Trace = None,
    format: Format = "auto",
    gpus: Gpus = None,
    nodes_of: NodesOf = 8,
    leaf_by: LeafBy = "group",
    tree: Tree = None,
    rule: Rule = None,
    strict: Strict = False,
    start: Start = None,
    duplicates: Duplicates = "keep",
    notice: Notice = 0,
    set_: Settings = None,
    json_file: JsonFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Run one policy once, with the figures of every leaf."""
    _before(json_file, plot_file)
    if trace is None and seed is None:
        seed = 1
    comparison, _ = _run(
        scenario, load, None if seed is None else str(seed), days, warmup_days,
        lambda path: _load(path, format, gpus, nodes_of, leaf_by, tree, rule, strict, start, days,
                           duplicates),
        trace, [policy], set_, notice, 1,
    )  # fmt: skip
    _print_comparison(comparison)
    _print_leaves(comparison.results[policy][0])
    _save(comparison, json_file, plot_file)


@app.command()
@_guarded
def generate(
    scenario: Annotated[str, typer.Argument(help=f"One of: {', '.join(SCENARIOS)}.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="FILE.csv, .csv.gz or .parquet.")],
    load: Load = 1.3,
    seed: Annotated[int, typer.Option(help="Seed.")] = 1,
    days: Annotated[int, typer.Option(help="Measured days.")] = 30,
    warmup_days: Warmup = 7,
) -> None:
    """Write a generated workload to a file."""
    _writable(output)
    world = generate_world(scenario, load=load, seed=seed, days=days, warmup_days=warmup_days)
    write_workload(world, output)
    _console().print(
        f"{len(world.jobs):,} jobs, {len(world.leaves)} leaves, {world.cluster.gpus:,} GPUs, "
        f"{format_us(world.end_us)} -> {escape(str(output))}"
    )


@app.command("import")
@_guarded
def import_(
    trace: Annotated[Path, typer.Argument(help="SWF, Philly CSV/JSON or workload file.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="FILE.csv, .csv.gz or .parquet.")],
    format: Format = "auto",
    gpus: Gpus = None,
    nodes_of: NodesOf = 8,
    leaf_by: LeafBy = "group",
    tree: Tree = None,
    rule: Rule = None,
    strict: Strict = False,
    start: Start = None,
    days: Annotated[int | None, typer.Option(help="Days to take. Default: all.")] = None,
    duplicates: Duplicates = "keep",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the report here.")] = None,
) -> None:
    """Turn a trace into a workload file and account for every row."""
    _writable(output)
    _writable(json_file)
    imported = _load(
        trace, format, gpus, nodes_of, leaf_by, tree, rule, strict, start, days, duplicates
    )
    write_workload(imported.world, output)
    report, world = imported.report, imported.world
    console = _console()
    console.print(escape("\n".join(report.lines())), soft_wrap=True)
    _print_assumptions(console, world.assumptions)
    console.print(f"{len(world.jobs):,} jobs, {len(world.leaves)} teams -> {escape(str(output))}")
    if json_file is not None:
        data = {
            "tenure_version": __version__,
            "path": report.path,
            "format": report.format,
            "rows": report.rows,
            "imported": report.imported,
            "findings": [
                {
                    "class": f.name,
                    "action": f.action,
                    "bad": f.bad,
                    "count": f.count,
                    "examples": [{"line": line, "detail": text} for line, text in f.examples],
                }
                for f in report.findings
            ],
            "notes": list(report.notes),
            "assumptions": list(world.assumptions),
        }
        json_file.write_text(json.dumps(data, indent=2, allow_nan=False) + "\n", encoding="utf-8")


@app.command()
@_guarded
def replay(
    scenario: Annotated[Path, typer.Argument(metavar="FILE", help="Scenario file (YAML).")],
    policy: Annotated[str, typer.Option(metavar="NAME", help="ai2, budget or hier.")] = "budget",
) -> None:
    """Run a scenario file and say what differs from its expectations."""
    console = _console()
    report = run_scenario(scenario, policy=policy)
    console.print(escape(report.title), style="bold")
    for case in report.cases:
        if case.skipped:
            verdict = f"skipped: {case.skip_reason}"
        else:
            verdict = f"{case.checks} checks, {len(case.failures)} failed"
        console.print(f"\n{escape(case.name)} under {policy}: {escape(verdict)}")
        for line in case.log:
            console.print(f"  {escape(line)}")
        for line in case.failures:
            console.print(f"  [bold red]{escape(line)}[/]")
    if not report.passed:
        raise typer.Exit(1)


@app.command()
@_guarded
def policies() -> None:
    """List the policies and their parameters (for --set)."""
    table = Table(box=box.SIMPLE)
    for column in ("policy", "parameter", "default", "unit", "meaning"):
        table.add_column(column)
    for name, parameters in known_policies().items():
        table.add_row(name)
        for p in parameters:
            table.add_row("", escape(p.name), escape(p.default), escape(p.unit), escape(p.help))
    _console().print(table)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"tenure {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


# Rows of the table: label, figure, how to print it.
_ROWS: tuple[tuple[str, str, str], ...] = (
    ("owed time delivered", "owed_cum", "%"),
    ("  worst leaf", "owed_cum_worst", "%"),
    ("  worst program", "owed_cum_worst_program", "%"),
    ("  within 7 days", "owed_win7", "%"),
    ("  within 7 days, worst leaf", "owed_win7_worst", "%"),
    ("  hour by hour", "owed_strict", "%"),
    ("leaves >= 95 %", "leaves_ge_95", "n"),
    ("goodput", "goodput", "%"),
    ("waste", "waste", "%"),
    ("occupancy", "occupancy", "%"),
    ("unfunded share", "unfunded_share", "%"),
    ("wait p50, all funded", "wait_s.all.p50", "s"),
    ("wait p90, all funded", "wait_s.all.p90", "s"),
    ("  debug", "wait_s.debug.p90", "s"),
    ("  interactive", "wait_s.interactive.p90", "s"),
    ("  training", "wait_s.training.p90", "s"),
    ("  gang (>= 64 GPUs)", "wait_s.gang.p90", "s"),
    ("gangs finished", "gangs_done_share", "%"),
    ("gang turnaround p50", "gang_turnaround_s.p50", "s"),
    ("preemptions per job", "preemptions_per_job", "x"),
    ("preempted again in 1 h", "repreempted_1h_share", "%"),
    ("sessions killed", "sessions_killed", "n"),
    ("jobs done", "jobs_done", "n"),
    ("  running at the end", "jobs_running", "n"),
    ("  queued at the end", "jobs_queued", "n"),
    ("  withdrawn", "jobs_withdrawn", "n"),
    ("  failed by a stop", "jobs_failed", "n"),
    ("  larger than the cluster", "jobs_never_fit", "n"),
)


def format_figure(value: float | None, how: str) -> str:
    """A figure for people: "%" of 1, "s" seconds, "n" count, "x" ratio."""
    if value is None:
        return "-"
    if how == "%":
        return f"{100 * value:.1f} %"
    if how == "s":
        for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
            if value >= 2 * size:
                return f"{value / size:.1f} {unit}"
        return f"{value:.1f} s"
    if how == "n":
        return f"{value:,.0f}"
    return f"{value:.2f}"


def _print_assumptions(console: Console, assumptions: tuple[str, ...]) -> None:
    if assumptions:
        console.print("assumed:")
        for text in assumptions:
            console.print(f"  - {escape(text)}", soft_wrap=True)


def _print_comparison(comparison: Comparison) -> None:
    console = _console()
    data = comparison.to_dict()
    work, cluster = data["workload"], data["cluster"]
    seeds = f", seeds {', '.join(map(str, comparison.seeds))}" if comparison.seeds else ""
    console.print(
        f"{cluster['gpus']:,} GPUs, {work['jobs']:,.0f} jobs, {work['gpu_hours']:,.0f} GPU-h, "
        f"offered {work['offered_load']:.2f} of the capacity "
        f"({comparison.funded_load:.2f} funded){seeds}",
        soft_wrap=True,
    )
    table = Table(box=box.SIMPLE)
    table.add_column("")
    for policy in comparison.results:
        table.add_column(policy, justify="right")
    means = {p: comparison.means(p) for p in comparison.results}
    intervals = {p: comparison.intervals(p) for p in comparison.results}
    for label, name, how in _ROWS:
        cells = []
        for policy in comparison.results:
            text = format_figure(means[policy][name], how)
            interval = intervals[policy][name]
            if interval is not None and how in ("%", "x"):
                low, high = (format_figure(v, how).removesuffix(" %") for v in interval)
                text += f" [dim]({low} - {high})[/]"
            cells.append(text)
        table.add_row(label, *cells)
    console.print(table)
    _print_assumptions(console, comparison.assumptions)


def _print_leaves(result: Result) -> None:
    table = Table(box=box.SIMPLE)
    table.add_column("leaf")
    for name in ("share", "owed GPU-h", "delivered GPU-h", "owed", "within 7 days", "hour by hour"):
        table.add_column(name, justify="right")
    for leaf in result.leaf:
        table.add_row(
            escape(leaf.path),
            format_figure(leaf.share, "%"),
            format_figure(leaf.owed_gpu_h, "n"),
            format_figure(leaf.delivered_gpu_h, "n"),
            format_figure(leaf.owed_cum, "%"),
            format_figure(leaf.owed_win7, "%"),
            format_figure(leaf.owed_strict, "%"),
        )
    _console().print(table)


def main() -> None:
    """Entry point."""
    app()


if __name__ == "__main__":
    main()
