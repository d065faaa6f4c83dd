# SPDX-License-Identifier: Apache-2.0
"""The figures of a result for people: which, in what order, and how they are written."""

from __future__ import annotations

__all__ = ["ROWS", "format_figure"]

# Label, figure, how to print it. Those marked "?" are left out where nothing of the kind happened.
ROWS: tuple[tuple[str, str, str], ...] = (
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
    ("    to its reservation", "gang_to_reservation_s.p90", "s?"),
    ("    from there", "gang_from_reservation_s.p90", "s?"),
    ("gangs finished", "gangs_done_share", "%"),
    ("gang turnaround p50", "gang_turnaround_s.p50", "s"),
    ("promised starts", "promises", "n?"),
    ("  broken", "promises_broken", "n?"),
    ("preemptions per job", "preemptions_per_job", "x"),
    ("preempted again in 1 h", "repreempted_1h_share", "%"),
    ("sessions killed", "sessions_killed", "n"),
    ("  suspended while idle", "sessions_suspended", "n?"),
    ("hosts repaired", "repairs", "n?"),
    ("  needing a person", "repairs_human", "n?"),
    ("  hours until empty, p90", "host_drain_h.p90", "x?"),
    ("  longest", "host_drain_h.max", "x?"),
    ("runs lost with a host", "runs_lost", "n?"),
    ("failed resumptions", "failed_resumes", "n?"),
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
