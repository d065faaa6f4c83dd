# SPDX-License-Identifier: Apache-2.0
"""Targets against what was measured: met, or missed by how much."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import experiments as ex
import sections as sc
import tables as tb
from experiments import Experiment, Line
from store import Row

from tenure.comparison import mean

RowsOf = Callable[[Experiment, Line], list[Row]]

CAP_AND_GRACE_S = 8 * 3600 + 10 + 2 * 5  # and the grid of the simulated passes

# load, figure, what it is, "<=" or ">=", bound, how it is written ("h": seconds in hours)
BOUNDS: tuple[tuple[float, str, str, str, float, str], ...] = (
    (1.3, "owed_cum", "owed time delivered", ">=", 0.99, "%"),
    (1.3, "owed_cum_worst", "worst leaf", ">=", 0.97, "%"),
    (1.3, "owed_cum_worst_program", "worst program", ">=", 0.98, "%"),
    (1.3, "occupancy", "occupancy", ">=", 0.99, "%"),
    (1.3, "waste", "waste", "<=", 0.04, "%"),
    (1.3, "wait_s.debug.p90", "debug wait p90", "<=", 30, "s"),
    (1.3, "wait_s.all.p50", "wait p50, all funded", "<=", 24, "s"),
    (1.3, "wait_s.all.p90", "wait p90, all funded", "<=", 1800, "s"),
    (1.3, "wait_s.gang.p90", "gang wait p90 from submission", "<=", 60 * 3600, "h"),
    (1.3, "gangs_done_share", "gangs finished", ">=", 0.84, "%"),
    (1.7, "owed_cum", "owed time delivered", ">=", 0.985, "%"),
    (1.7, "owed_cum_worst", "worst leaf", ">=", 0.955, "%"),
    (1.7, "owed_cum_worst_program", "worst program", ">=", 0.95, "%"),
    (1.7, "waste", "waste", "<=", 0.05, "%"),
    (1.7, "wait_s.debug.p90", "debug wait p90", "<=", 30, "s"),
    (1.7, "wait_s.all.p90", "wait p90, all funded", "<=", 1.8 * 3600, "s"),
    (1.7, "wait_s.gang.p90", "gang wait p90 from submission", "<=", 110 * 3600, "h"),
    (1.7, "gangs_done_share", "gangs finished", ">=", 0.57, "%"),
)


def verdict(value: float, relation: str, bound: float, how: str) -> str:
    missed = value - bound if relation == "<=" else bound - value
    unit = " percentage points" if how == "%" else ""
    return "met" if missed <= 0 else f"**missed by {tb.written(missed, how)}{unit}**"


def _find(experiment: Experiment, group: str, label: str) -> Line:
    return next(x for x in experiment.lines if x.group == group and x.label == label)


def table(seeds: Sequence[int], rows_of: RowsOf) -> str:
    """Rows of what was not run are left out; `rows_of` then raises KeyError."""
    published = ex.published(seeds)
    out: list[list[str]] = []

    def add(target: str, measured: str, result: str) -> None:
        out.append([target, measured, result])

    def add_values(
        target: str, numbers: Sequence[float], relation: str, bound: float, how: str
    ) -> None:
        unit = " %" if how == "%" else ""
        stated = f"{target} {relation} {tb.written(bound, how)}{unit}"
        if not numbers:
            add(stated, "nothing to measure", "-")
            return
        worst = min(numbers) if relation == ">=" else max(numbers)
        add(
            stated,
            f"{tb.in_words(numbers, how)}; worst seed {tb.written(worst, how)}",
            verdict(mean(numbers) or 0.0, relation, bound, how),
        )

    def rows(experiment: Experiment, group: str, label: str) -> list[Row]:
        return rows_of(experiment, _find(experiment, group, label))

    def bounds() -> None:
        for load, figure, what, relation, bound, how in BOUNDS:
            numbers = tb.values(rows(published, f"{load}", "budget"), figure)
            add_values(f"{load}: {what}", numbers, relation, bound, how)

    def against_ai2() -> None:
        for load in ("1.3", "1.7"):
            ours, theirs = rows(published, load, "budget"), rows(published, load, "ai2")

            def both(figure: str, ours=ours, theirs=theirs) -> tuple[float, float]:
                one, two = tb.values(ours, figure), tb.values(theirs, figure)
                return mean(one) or 0.0, mean(two) or 0.0

            own, other = both("wait_s.training.p90")
            add(
                f"{load}: medium wait p90 not above `ai2`'s",
                f"{tb.written(own, 'h')} against {tb.written(other, 'h')}",
                verdict(own, "<=", other, "h"),
            )
            own, other = both("gangs_done_share")
            add(
                f"{load}: gangs finished above `ai2`'s",
                f"{tb.written(own, '%')} % against {tb.written(other, '%')} %",
                verdict(own, ">=", other, "%"),
            )
            own, other = both("sessions_killed")
            add(
                f"{load}: sessions killed at least 3 times fewer than `ai2`",
                f"{own:,.0f} against {other:,.0f}: {other / max(own, 1):.1f} times",
                verdict(other / max(own, 1), ">=", 3, "x"),
            )
            own, other = both("preemptions_per_job")
            if load == "1.7":
                add(
                    "1.7: preemptions per job at least 8 times fewer than `ai2`",
                    f"{own:.2f} against {other:.2f}: {other / own:.1f} times",
                    verdict(other / own, ">=", 8, "x"),
                )

    def notice() -> None:
        experiment = ex.notice(seeds)
        for load, bound in (("1.3", 0.015), ("1.7", 0.02)):
            numbers = tb.values(rows(experiment, load, "budget, all"), "waste")
            add_values(f"{load}: waste, jobs save at a stop", numbers, "<=", bound, "%")

    def promises() -> None:
        every = [
            row
            for experiment in (published, ex.hosts(seeds))
            for line in experiment.lines
            if line.label == "budget"
            for row in rows_of(experiment, line)
        ]
        longest = max(tb.values(every, "gang_from_reservation_s.max"), default=0.0)
        made = sum(tb.values(every, "promises"))
        broken = sum(tb.values(every, "promises_broken"))
        add(
            "every promise kept within cap + grace, failures of its hosts apart",
            f"{made:,.0f} promises in {len(every)} runs (with and without failing hosts), "
            f"{broken:,.0f} broken; longest wait {tb.written(longest, 's')}, where a promised "
            "host failed counted from the first promise",
            verdict(broken, "<=", 0, "n"),
        )

    def gaming() -> None:
        experiment = ex.gaming(seeds)
        most, costs = {"hold": -1.0, "others": -1.0}, -1.0
        who = {"hold": "", "others": ""}
        victim = ""
        for line, honest, leaf in sc.played(experiment):
            if line.cases[0].policy != "budget":
                continue
            gained, lost = sc.gains(line, honest, lambda one, e=experiment: rows_of(e, one), leaf)
            kind = "hold" if line.label == "hold" else "others"
            if (gain := mean(gained) or 0.0) > most[kind]:
                most[kind], who[kind] = gain, f"{line.label}, {line.group}"
            if (cost := mean(lost) or 0.0) > costs:
                costs, victim = cost, f"{line.label}, {line.group}"
        for kind, what, bound in (
            ("hold", "idle hoarding", 0.3),
            ("others", "any other strategy", 0.1),
        ):
            add(
                f"gaming: {what} gains at most {100 * bound:.0f} %",
                f"{100 * most[kind]:.1f} % ({who[kind]})",
                verdict(most[kind], "<=", bound, "%"),
            )
        add(
            "gaming: others lose at most 2 % of what they are owed",
            f"{100 * costs:.2f} % ({victim})",
            verdict(costs, "<=", 0.02, "%"),
        )

    def nights() -> None:
        experiment = ex.nights(seeds)
        for load in ("1.3", "1.7"):
            awake = rows(experiment, load, "budget, none asleep at night")
            asleep = rows(experiment, load, "budget, half asleep at night")
            before, after = (mean(tb.values(r, "sessions_killed")) or 0.0 for r in (awake, asleep))
            suspended = mean(tb.values(asleep, "sessions_suspended")) or 0.0
            add(
                f"{load}: sleeping at night gets at most 1.1 times as many sessions killed in use",
                f"half of them asleep: {after:,.0f} killed in use ({before:,.0f} when nobody "
                f"sleeps), {suspended:,.0f} suspended",
                verdict(after, "<=", 1.1 * before, "n"),
            )

    def hosts() -> None:
        experiment = ex.hosts(seeds)
        for group in dict.fromkeys(line.group for line in experiment.lines):
            ours, theirs = rows(experiment, group, "budget"), rows(experiment, group, "priority")
            longest = max(tb.values(ours, "host_drain_h.max"), default=0.0)
            add(
                f"{group}: an unhealthy host is empty within cap + grace",
                f"longest {longest:.2f} h",
                verdict(longest * 3600, "<=", CAP_AND_GRACE_S, "s"),
            )
            own = mean(tb.values(ours, "repairs_human")) or 0.0
            other = mean(tb.values(theirs, "repairs_human")) or 0.0
            add(
                f"{group}: repairs that need a person at least 90 % fewer than `priority`",
                f"{own:.1f} against {other:.1f} a month",
                verdict(1 - own / max(other, 1), ">=", 0.9, "%"),
            )

    def shapes() -> None:
        experiment = ex.shapes(seeds)
        lowest, where = 2.0, ""
        for line in experiment.lines:
            if line.label != "budget":
                continue
            owed = mean(tb.values(rows_of(experiment, line), "owed_cum")) or 0.0
            if owed < lowest:
                lowest, where = owed, line.group
        add(
            "other trees and clusters, load 1.5: owed time delivered >= 97 %",
            f"lowest {tb.written(lowest, '%')} % ({where})",
            verdict(lowest, ">=", 0.97, "%"),
        )

    for part in (bounds, against_ai2, notice, promises, gaming, nights, hosts, shapes):
        try:
            part()
        except KeyError:
            add(f"{part.__name__.replace('_', ' ')}", "not run", "-")
    met = sum(result == "met" for _, _, result in out)
    return tb.markdown(["target", "measured", ""], out) + f"\n{met} of {len(out)} met.\n"
