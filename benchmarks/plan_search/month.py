# SPDX-License-Identifier: Apache-2.0
"""Does a better pass make a better month? The same time with the plan search off and on.

    python benchmarks/plan_search/month.py --load 1.7 --seeds 51-56
    python benchmarks/plan_search/month.py --trace philly_30d.swf.gz --gpus 256 --seeds 0-5
    python benchmarks/plan_search/month.py --load 1.7 --interval 1800      long ticks
    python benchmarks/plan_search/month.py --outage 24 --days 4          a queue at an empty cluster

Prints a Markdown table: the mean over the seeds without a search, and for each number of trials the
mean paired difference to it with a 95 % interval (Student's t). A difference whose interval holds 0
is noise; the others are marked with a star. Needs the `tenure` package.

A seed is a month of the institute. A trace is one month only: there, seed 0 is the trace, and each
other seed moves every submission by up to a minute, which shows what is chance.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tenure import Result, World, generate, simulate
from tenure.importers import load as load_trace

HOUR = 3_600_000_000  # microseconds
DAY = 24 * HOUR
MINUTE = HOUR // 60

Figure = Callable[[Result], float | None]


def hours(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / 3600


ROWS: tuple[tuple[str, int, Figure], ...] = (
    ("owed_cum", 4, lambda r: r.owed_cum),
    ("worst leaf", 4, lambda r: r.owed_cum_worst),
    ("worst program", 4, lambda r: r.owed_cum_worst_program),
    ("goodput", 4, lambda r: r.goodput),
    ("waste", 4, lambda r: r.waste),
    ("occupancy", 4, lambda r: r.occupancy),
    ("preemptions per job", 3, lambda r: r.preemptions_per_job),
    ("sessions stopped", 0, lambda r: r.sessions_killed),
    ("gang wait p50, h", 1, lambda r: hours(r.wait_s["gang"].p50)),
    ("gang wait p90, h", 1, lambda r: hours(r.wait_s["gang"].p90)),
    ("gangs finished", 3, lambda r: r.gangs_done_share),
    ("gang turnaround p90, h", 0, lambda r: hours(r.gang_turnaround_s.p90)),
    ("all waits p90, h", 2, lambda r: hours(r.wait_s["all"].p90)),
    ("debug wait p90, s", 1, lambda r: r.wait_s["debug"].p90),
    ("jobs done", 0, lambda r: r.jobs_done),
)


def with_submissions(world: World, submit_us: np.ndarray, warmup: int, end: int) -> World:
    """The same jobs, submitted at other times."""
    jobs = np.array(world.jobs)
    jobs["submit_us"] = submit_us
    return World(
        cluster=world.cluster,
        leaves=world.leaves,
        jobs=jobs[np.argsort(submit_us, kind="stable")],
        warmup=warmup,
        end=end,
        assumptions=world.assumptions,
    )


def institute(seed: int, load: float, days: int) -> World:
    return generate("institute", load=load, seed=seed, days=days)


def trace(seed: int, path: Path, gpus: int) -> World:
    world = load_trace(path, gpus=gpus).world
    if seed == 0:
        return world
    moved = np.random.RandomState(seed).randint(-MINUTE, MINUTE, size=len(world.jobs))
    submit = np.maximum(np.array(world.jobs["submit_us"]) + moved, 0)
    return with_submissions(world, submit, world.warmup_us, world.end_us)


def outage(seed: int, load: float, days: int, closed: float) -> World:
    """What was submitted in the first `closed` hours waits together for an empty cluster."""
    world = generate("institute", load=load, seed=seed, days=days + 1, warmup_days=0)
    opened = round(closed * HOUR)
    submit = np.maximum(np.array(world.jobs["submit_us"]), opened)
    return with_submissions(world, submit, opened, opened + days * DAY)


def student_t(degrees: int) -> float:
    """Quantile 0.975; 2.0 beyond the table."""
    table = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179,
             2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086)  # fmt: skip
    return table[degrees - 1] if degrees <= len(table) else 2.0


def difference(values: Sequence[float], base: Sequence[float], digits: int) -> str:
    deltas = np.array(values) - np.array(base)
    mean = float(deltas.mean())
    if len(deltas) < 2:
        return f"{mean:+.{digits}f}"
    half = student_t(len(deltas) - 1) * float(deltas.std(ddof=1)) / math.sqrt(len(deltas))
    return f"{mean:+.{digits}f} ± {half:.{digits}f}{' *' if abs(mean) > half else ''}"


def table(trials: Sequence[int], results: dict[int, list[Result]]) -> str:
    first, *others = trials
    lines = ["| | " + " | ".join([f"{first} trials", *(f"{t}: difference" for t in others)]) + " |"]
    lines.append("|---" * (len(trials) + 1) + "|")
    for name, digits, of in ROWS:
        columns = {t: [of(r) for r in results[t]] for t in trials}
        known = [
            i for i in range(len(results[first])) if all(columns[t][i] is not None for t in trials)
        ]
        if not known:
            continue
        values = {t: [float(columns[t][i] or 0) for i in known] for t in trials}
        cells = [f"{sum(values[first]) / len(known):.{digits}f}"]
        cells += [difference(values[t], values[first], digits) for t in others]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def seeds_of(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--load", type=float, default=1.7)
    parser.add_argument("--seeds", type=seeds_of, default=range(51, 57), metavar="A-B")
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--trials", default="0,64,1024", metavar="T,T,...")
    parser.add_argument("--interval", type=int, default=5, help="of passes, seconds")
    parser.add_argument("--policy", default="budget")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--trace", type=Path, help="a trace instead of the institute")
    parser.add_argument("--gpus", type=int, default=256, help="of the trace's cluster")
    parser.add_argument("--outage", type=float, metavar="HOURS", help="closed from the beginning")
    arguments = parser.parse_args()
    trials = [int(t) for t in arguments.trials.split(",")]
    parameters = dict(text.split("=", 1) for text in arguments.set)
    results: dict[int, list[Result]] = {t: [] for t in trials}
    for seed in arguments.seeds:
        if arguments.trace is not None:
            world = trace(seed, arguments.trace, arguments.gpus)
        elif arguments.outage is not None:
            world = outage(seed, arguments.load, arguments.days, arguments.outage)
        else:
            world = institute(seed, arguments.load, arguments.days)
        for t in trials:
            result = simulate(
                world,
                arguments.policy,
                {**parameters, "search_trials": t},
                pass_interval=arguments.interval * 1_000_000,
            )
            results[t].append(result)
            print(f"seed {seed}, {t} trials: {result.sim_wall_s:.1f} s", file=sys.stderr)
    print(f"{arguments.policy}, {len(arguments.seeds)} seeds\n\n{table(trials, results)}")


if __name__ == "__main__":
    main()
