# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner, Result

import tenure
from tenure.cli import app, format_figure, parse_seeds

NUMBER = {"type": ["number", "null"]}
QUANTILES = {
    "type": "object",
    "properties": dict.fromkeys(("p50", "p90", "p99"), NUMBER),
    "required": ["p50", "p90", "p99"],
    "additionalProperties": False,
}
SPREAD = {
    "type": "object",
    "properties": dict.fromkeys(("p50", "p90", "max"), NUMBER),
    "required": ["p50", "p90", "max"],
    "additionalProperties": False,
}
SPREADS = (
    "gang_to_reservation_s", "gang_from_reservation_s", "promise_lateness_s", "host_drain_h",
)  # fmt: skip
FIGURES = (
    "owed_cum", "owed_cum_worst", "owed_strict", "owed_win7", "owed_win7_worst",
    "owed_cum_worst_program", "leaves", "leaves_ge_95", "goodput", "waste", "occupancy",
    "availability", "unfunded_share", "preemptions_per_job", "repreempted_1h_share",
    "sessions_killed", "gangs_done_share", "jobs_done", "jobs_running", "jobs_queued",
    "jobs_withdrawn", "jobs_failed", "jobs_never_fit", "sim_wall_s", "events", "jobs", "passes",
    "starts", "preemptions", "sessions_suspended", "promises", "promises_broken", "repairs",
    "repairs_human", "drains_late", "runs_lost", "failed_resumes",
)  # fmt: skip
GROUPS = ("all", "debug", "training", "gang", "interactive", "sweep")
POLICY = {
    "type": "object",
    "properties": {
        **dict.fromkeys(FIGURES, NUMBER),
        "wait_s": {
            "type": "object",
            "properties": dict.fromkeys(GROUPS, QUANTILES),
            "required": list(GROUPS),
            "additionalProperties": False,
        },
        "gang_turnaround_s": QUANTILES,
        **dict.fromkeys(SPREADS, SPREAD),
        "ci": {
            "type": "object",
            "additionalProperties": {
                "anyOf": [
                    {"type": "null"},
                    {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2},
                ]
            },
        },
    },
    "required": [*FIGURES, "wait_s", "gang_turnaround_s", *SPREADS, "ci"],
    "additionalProperties": False,
}
SCHEMA = {
    "type": "object",
    "properties": {
        "tenure_version": {"type": "string"},
        "workload": {
            "type": "object",
            "properties": {
                "jobs": {"type": "number"},
                "gpu_hours": {"type": "number"},
                "offered_load": {"type": "number"},
                "assumptions": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["jobs", "gpu_hours", "offered_load", "assumptions"],
            "additionalProperties": False,
        },
        "cluster": {
            "type": "object",
            "properties": {"gpus": {"type": "integer"}, "nodes": {"type": "integer"}},
            "required": ["gpus", "nodes"],
            "additionalProperties": False,
        },
        "seeds": {"type": "array", "items": {"type": "integer"}},
        "policies": {"type": "object", "additionalProperties": POLICY, "minProperties": 1},
    },
    "required": ["tenure_version", "workload", "cluster", "seeds", "policies"],
    "additionalProperties": False,
}

SHORT = ["--days", "2", "--warmup-days", "1", "--jobs", "1"]


def run(*args: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in args])


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} in JSON")


def read(path: Path) -> Any:
    return json.loads(path.read_text(), parse_constant=refuse)


def test_compare_writes_the_documented_json(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out.json"
    got = run(
        "compare", "--load", 1.5, "--seeds", "1-3", "--policies", "priority,budget", *SHORT,
        "--json", out,
    )  # fmt: skip
    assert got.exit_code == 0, got.output
    assert "owed time delivered" in got.stdout and "1,024 GPUs" in got.stdout
    data = read(out)
    jsonschema.validate(data, SCHEMA)
    assert data["seeds"] == [1, 2, 3]
    assert data["cluster"] == {"gpus": 1024, "nodes": 128}
    assert list(data["policies"]) == ["priority", "budget"]
    for entry in data["policies"].values():
        parts = ("done", "running", "queued", "withdrawn", "failed", "never_fit")
        jobs = sum(entry[f"jobs_{part}"] for part in parts)
        assert jobs == pytest.approx(data["workload"]["jobs"])
        assert entry["ci"]["owed_cum"][0] <= entry["owed_cum"] <= entry["ci"]["owed_cum"][1]
        assert entry["ci"]["wait_s.debug.p90"] is not None


def test_same_seeds_same_bytes(tmp_path: Path) -> None:
    texts = []
    for name, jobs in (("a", 1), ("b", 2)):
        out = tmp_path / name
        run("compare", "--seeds", "4,2", "--policies", "ai2,budget", "--days", 1,
            "--warmup-days", 0, "--jobs", jobs, "--json", out)  # fmt: skip
        lines = out.read_text().splitlines()
        texts.append([line for line in lines if '"sim_wall_s"' not in line])
    assert texts[0] == texts[1]


def test_one_seed_has_no_interval(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    got = run("simulate", "--policy", "fairtree", "--seed", 7, "--days", 1, "--json", out)
    assert got.exit_code == 0, got.output
    data = read(out)
    jsonschema.validate(data, SCHEMA)
    assert data["seeds"] == [7]
    assert set(data["policies"]["fairtree"]["ci"].values()) == {None}
    assert "delivered GPU-h" in got.stdout


def test_set_changes_a_policy(tmp_path: Path) -> None:
    out = [tmp_path / "a", tmp_path / "b"]
    base = ["compare", "--policies", "ai2,budget", "--seeds", 1, *SHORT]
    assert run(*base, "--json", out[0]).exit_code == 0
    changed = ["--set", "budget.quantum=4h", "--set", "budget.lookback=48h"]
    assert run(*base, *changed, "--json", out[1]).exit_code == 0
    one, two = read(out[0])["policies"], read(out[1])["policies"]
    for entry in (*one.values(), *two.values()):
        del entry["sim_wall_s"]
    assert one["ai2"] == two["ai2"]
    assert one["budget"] != two["budget"]


def test_faults_games_and_other_worlds(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    base = ["simulate", "--seed", 2, "--days", 4, "--warmup-days", 1, "--gpus", 256,
            "--world", "leaves=6", "--world", "levels=3"]  # fmt: skip
    got = run(*base, "--faults", "mean_uptime=10d", "--faults", "failed_resume_permille=100",
              "--idle-nights-permille", 500, "--game", "hold@0", "--json", out)  # fmt: skip
    assert got.exit_code == 0, got.output
    assert "hosts repaired" in got.stdout and "256 GPUs" in got.stdout
    data = read(out)
    jsonschema.validate(data, SCHEMA)
    assert "leaf 0 games the scheduler: hold" in data["workload"]["assumptions"]
    entry = data["policies"]["budget"]
    assert entry["repairs"] > 0 and entry["runs_lost"] > 0
    assert entry["sessions_suspended"] > 0 and entry["host_drain_h"]["max"] <= 8.1
    assert run(*base, "--json", out).exit_code == 0
    entry = read(out)["policies"]["budget"]
    assert entry["repairs"] == 0 and entry["availability"] == 1 and entry["failed_resumes"] == 0


def test_explain(tmp_path: Path) -> None:
    base = ["explain", "--seed", 5, "--load", 1.7, "--days", 3, "--warmup-days", 0, "--gpus", 256]
    world = tenure.generate(load=1.7, seed=5, days=3, warmup_days=0, gpus=256)
    ran = tenure.simulate(world, record=True)
    assert ran.timeline is not None
    runs = ran.timeline.runs
    stopped = runs[runs["end"] == tenure.RUN_ENDS.index("stopped")]
    funded = stopped[world.jobs["minimum_us"][stopped["job"]] > 0][0]
    got = run(*base, "--job", funded["job"], "--at", "3d")
    assert got.exit_code == 0, got.output
    assert f"job {funded['job']}: " in got.stdout and "submitted" in got.stdout
    assert "stopped for job" in got.stdout and "after its minimum" in got.stdout
    started = set(runs["job"].tolist())
    jobs = world.jobs
    waiting = [
        i
        for i in range(len(jobs))
        if i not in started and jobs["minimum_us"][i] > 0 and jobs["patience_us"][i] > 2e11
    ]
    got = run(*base, "--job", waiting[-1], "--at", "3d")
    assert "its team may claim" in got.stdout and "before it: " in got.stdout, got.stdout
    got = run(*base, "--job", waiting[-1], "--at", "1m")
    assert "not submitted yet" in got.stdout
    for arguments, message in (
        (["--job", 10**6, "--at", "1d"], "--job is 1000000"),
        (["--job", 1, "--at", "noon"], "--at is 'noon'"),
        (["--job", waiting[-1], "--at", "3d", "--policy", "priority"], "explains nothing"),
    ):
        got = run(*base, *arguments)
        assert got.exit_code != 0 and message in got.stderr.replace("\n", " ")


SWF = "".join(
    f"{i} {i * 60} -1 {600 * (1 + i % 7)} {1 + i % 9} -1 -1 -1 -1 -1 "
    f"1 {i % 5} {i % 3} -1 1 1 -1 -1\n"
    for i in range(200)
)


def test_import_then_compare(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    log.write_text("; Version: 2.2\n; MaxProcs: 64\n" + SWF + "1 2 3\n")
    direct = tmp_path / "direct.json"
    got = run("compare", "--trace", log, "--gpus", 64, "--policies", "budget", "--json", direct)
    assert got.exit_code == 0, got.output
    assert "minimum runtime = 1/4" in got.stdout
    assert f"{log}:203: 3 fields, must have 18" in got.stderr
    jsonschema.validate(read(direct), SCHEMA)
    assert read(direct)["seeds"] == []
    for name in ("out.csv", "out.parquet"):
        out, report, through = tmp_path / name, tmp_path / "report.json", tmp_path / "through.json"
        got = run("import", log, "-o", out, "--gpus", 64, "--json", report)
        assert got.exit_code == 0, got.output
        assert "1 unparsable (dropped)" in got.stdout
        assert read(report)["imported"] == 200
        assert read(report)["findings"][0]["examples"][0]["line"] == 203
        got = run("compare", "--trace", out, "--policies", "budget", "--json", through)
        assert got.exit_code == 0, got.output
        one, two = read(direct), read(through)
        for data in (one, two):
            del data["policies"]["budget"]["sim_wall_s"]
        assert one == two


def test_generate_then_simulate(tmp_path: Path) -> None:
    out = tmp_path / "w.parquet"
    got = run("generate", "institute", "--seed", 3, "--days", 1, "--warmup-days", 1, "-o", out)
    assert got.exit_code == 0, got.output
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    assert run("simulate", "--trace", out, "--json", a).exit_code == 0
    assert run("simulate", "--seed", 3, "--days", 1, "--warmup-days", 1, "--json", b).exit_code == 0
    one, two = (read(p)["policies"]["budget"] for p in (a, b))
    assert one["owed_cum"] == two["owed_cum"] and one["events"] == two["events"]


def test_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "out.png"
    base = ["compare", "--policies", "priority,budget", "--days", 1, "--seeds", "1-2", "--jobs", 1]
    assert run(*base, "--plot", out).exit_code == 0
    assert out.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    got = run(*base, "--plot", tmp_path / "out.docx")
    assert got.exit_code == 2 and "out.docx" in got.stderr


def test_other_commands() -> None:
    got = run("policies")
    assert got.exit_code == 0
    for name in tenure.policies():
        assert name in got.stdout
    assert run("--version").stdout == f"tenure {tenure.__version__}\n"
    assert "compare" in run("--help").output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["compare", "--policies", "budget,nobody"], "unknown policy 'nobody'"),
        (["compare", "--policies", "budget,budget"], "named twice"),
        (["compare", "--seeds", "5-1"], "must go up"),
        (["compare", "--seeds", "x"], "neither a number nor a range"),
        (["compare", "--scenario", "moon", "--seeds", "1"], "unknown scenario 'moon'"),
        (["compare", "--set", "budget.colour=red"], "no parameter 'colour', it has: lookback"),
        (["compare", "--set", "budget"], "must be POLICY.KEY=VALUE"),
        (["compare", "--set", "hier.quantum=1h"], "not among those that run"),
        (["compare", "--days", "0"], "days is 0"),
        (["compare", "--jobs", "-1"], "--jobs is -1"),
        (["compare", "--notice-permille", "2000"], "notice_permille is 2000"),
        (["compare", "--trace", "nowhere.swf"], "nowhere.swf: no such file"),
        (["compare", "--trace", "LOG", "--gpus", "63"], "63 GPUs are not"),
        (["compare", "--trace", "LOG", "--seeds", "1"], "--seeds is for generated"),
        (["compare", "--trace", "LOG", "--scenario", "institute"], "exclude each other"),
        (["compare", "--trace", "LOG", "--rule", "restart"], "must be KEY=VALUE"),
        (["compare", "--trace", "LOG", "--strict"], "log.swf:2: unparsable"),
        (["compare", "--trace", "LOG", "--format", "abacus"], "format is 'abacus'"),
        (["compare", "--trace", "LOG", "--tree", "TREE"], "tree.yaml:3: allocations[0].weight"),
        (["import", "LOG", "-o", "out.xlsx"], "out.xlsx"),
        (["import", "LOG", "-o", "DIR"], "cannot be written"),
        (["compare", "--load", "much"], "Invalid value"),
        (["compare", "--faults", "mean_uptime"], "must be KEY=VALUE with one of failed_resume"),
        (["compare", "--faults", "mean_uptime=soon"], "mean_uptime is 'soon', must look like"),
        (["compare", "--faults", "seed=one"], "'one' is not a number"),
        (["compare", "--faults", "hard_permille=2000"], "hard_permille is 2000"),
        (["compare", "--game", "bribe@1"], "must be STRATEGY@LEAF with one of none, inflate"),
        (["compare", "--game", "hold@nowhere"], "no leaf 'nowhere'"),
        (["compare", "--game", "hold@99"], "leaf is 99"),
        (["compare", "--world", "sky=blue"], "must be KEY=VALUE with one of freeload"),
        (["compare", "--world", "leaves=many"], "'many' is not a number"),
        (["compare", "--world", "levels=0", "--world", "leaves=3"], "levels is 0"),
        (["compare", "--gpus", "100"], "100 GPUs are not nodes of 8"),
        (["compare", "--idle-nights-permille", "-1"], "idle_nights_permille is -1"),
        (["report", "-o", "out.html", "--policies", ""], "no policy to report on"),
        (["dance"], "No such command"),
    ],
)
def test_bad_input_is_exit_code_2(tmp_path: Path, args: list[str], message: str) -> None:
    log, tree = tmp_path / "log.swf", tmp_path / "tree.yaml"
    log.write_text(SWF.splitlines()[0] + "\n1 2 3\n")
    tree.write_text("allocations:\n  - name: a\n    weight: heavy\n")
    names = {"LOG": str(log), "TREE": str(tree), "DIR": str(tmp_path)}
    got = run(*(names.get(a, a) for a in args))
    assert got.exit_code == 2, got.output
    assert message in got.stderr.replace("\n", " ")
    assert "Traceback" not in got.output


def test_seeds() -> None:
    assert parse_seeds("1-3, 7 ,9-9") == [1, 2, 3, 7, 9]


@pytest.mark.parametrize(
    ("value", "how", "text"),
    [(None, "%", "-"), (0.98765, "%", "98.8 %"), (14.62, "s", "14.6 s"), (130, "s", "2.2 min"),
     (9000, "s", "2.5 h"), (604800, "s", "7.0 d"), (12345, "n", "12,345"), (0.251, "x", "0.25")],
)  # fmt: skip
def test_format_figure(value: float | None, how: str, text: str) -> None:
    assert format_figure(value, how) == text
