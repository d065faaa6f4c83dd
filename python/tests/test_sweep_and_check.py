# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

import tenure
from tenure.acceptance import read_acceptance
from tenure.cli import app
from tenure.cli.sweep import parse_grid

SHORT = {"days": 1, "warmup_days": 0, "gpus": 128}


def run(*args: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in args])


def test_a_sweep_is_the_simulations_it_names() -> None:
    grid = {
        "policy": ["ai2", "budget"],
        "budget.quantum": ["30m", "2h"],
        "load": [1.0, 1.7],
        "notice_permille": [500],
        "faults.mean_uptime": [2 * 86_400_000_000],
    }
    rows = tenure.sweep(grid, seeds=[1, 2], **SHORT)
    # A parameter of budget makes no further rows of ai2.
    assert [(r["policy"], r.get("budget.quantum"), r["load"], r["seed"]) for r in rows] == [
        *(("ai2", None, load, seed) for load in (1.0, 1.7) for seed in (1, 2)),
        *(("budget", q, load, seed) for q in ("30m", "2h") for load in (1.0, 1.7)
          for seed in (1, 2)),
    ]  # fmt: skip
    row = rows[-1]
    direct = tenure.simulate(
        tenure.generate(load=1.7, seed=2, **SHORT),  # type: ignore[arg-type]
        "budget",
        {"quantum": "2h"},
        notice_permille=500,
        faults=tenure.Faults(mean_uptime=2 * 86_400_000_000),
    )
    assert {k: row[k] for k in tenure.figures(direct)} == tenure.figures(direct)
    assert row["repairs"] > 0
    with ThreadPoolExecutor(2) as threads:
        again = tenure.sweep(grid, seeds=[1, 2], executor=threads, **SHORT)
    for one, two in zip(rows, again, strict=True):
        assert {**one, "sim_wall_s": 0} == {**two, "sim_wall_s": 0}


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"policy": ["nobody"]}, "unknown policy 'nobody'"),
        ({"budget.colour": ["red"]}, "policy 'budget' has no parameter 'colour'"),
        ({"weather.rain": [1]}, "'weather.rain' is neither"),
        ({"load": []}, "must be a list of values"),
        ({"load": "1.3"}, "must be a list of values"),
    ],
)
def test_bad_grids(grid: dict[str, list[object]], message: str) -> None:
    with pytest.raises(tenure.InvalidArgument, match=message):
        tenure.sweep(grid, seeds=[1], **SHORT)


def test_sweep_command_writes_every_format(tmp_path: Path) -> None:
    base = ["sweep", "--grid", "policy=budget,ai2", "--grid", "budget.backoff=0,3", "--days", 1,
            "--warmup-days", 0, "--gpus", 128, "--seeds", "1-2", "--jobs", 1]  # fmt: skip
    tables = []
    for name in ("rows.csv", "rows.parquet", "rows.json"):
        out = tmp_path / name
        got = run(*base, "-o", out)
        assert got.exit_code == 0, got.output
        assert "6 rows" in got.stdout and "goodput" in got.stdout
        if name.endswith("json"):
            tables.append(pl.DataFrame(json.loads(out.read_text()), infer_schema_length=None))
        else:
            read = pl.read_csv if name.endswith("csv") else pl.read_parquet
            tables.append(read(out))
    for table in tables:
        assert table["policy"].to_list() == ["budget"] * 4 + ["ai2"] * 2
        assert table["owed_cum"].to_list() == pytest.approx(tables[0]["owed_cum"].to_list())
    for arguments, message in (
        (["sweep", "--grid", "load=1", "-o", "rows.xlsx"], "must end in .csv"),
        (["sweep", "--grid", "load", "-o", "rows.csv"], "must be KEY=VALUE"),
        (["sweep", "--grid", "load=1", "--grid", "load=2", "-o", "rows.csv"], "given twice"),
        (["sweep", "--grid", "load=much", "-o", "rows.csv"], "load is 'much'"),
    ):
        got = run(*arguments)
        assert got.exit_code == 2 and message in got.stderr.replace("\n", " ")


def test_grid_values() -> None:
    texts = ["policy=a, b", "budget.express=false", "report_idle=false", "mincap=4h"]
    assert parse_grid(texts) == {
        "policy": ["a", "b"],
        "budget.express": ["false"],
        "report_idle": [False],
        "mincap": [4 * 3_600_000_000],
    }


ACCEPTANCE = """\
work: {load: 1.5, days: 2, warmup_days: 1, gpus: 256, seeds: [1, 2]}
parameters: {quantum: 1h}
conditions:
  notice_permille: 500
  faults: {mean_uptime: 10d}
bounds:
  owed_cum: {min: 0.5}
  wait_s.debug.p90: {max: 3600}
  promises_broken: {max: 0, every: true}
against:
  ai2:
    goodput: {min: 0.5, max: 2}
"""


def test_check(tmp_path: Path) -> None:
    file = tmp_path / "acceptance.yaml"
    file.write_text(ACCEPTANCE)
    got = run("check", file, "--jobs", 1)
    assert got.exit_code == 0, got.output
    assert "4 bounds kept, 0 not" in got.stdout
    file.write_text(ACCEPTANCE.replace("{min: 0.5}", "{min: 2}"))
    got = run("check", file, "--jobs", 1)
    assert got.exit_code == 1
    assert "NOT KEPT" in got.stdout and "3 bounds kept, 1 not" in got.stdout
    verdicts = read_acceptance(file).check()
    assert [v.kept for v in verdicts] == [False, True, True, True]
    assert verdicts[3].against == "ai2"
    assert verdicts[2].value == 0


def test_every_seed_has_to_keep_a_bound(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    text = "work: {days: 1, warmup_days: 0, gpus: 128, seeds: [1, 2, 3]}\nbounds:\n  jobs: {}\n"
    seeds = [tenure.generate(days=1, warmup_days=0, gpus=128, seed=s) for s in (1, 2, 3)]
    jobs = sorted(len(w.jobs) for w in seeds)
    for bound, kept in (
        (f"{{min: {jobs[0]}, every: true}}", True),
        (f"{{min: {jobs[0] + 1}, every: true}}", False),
        (f"{{min: {jobs[0] + 1}}}", True),
        (f"{{min: 0, max: {jobs[2] - 1}, every: true}}", False),
        (f"{{min: {jobs[0] + 1}, max: {jobs[2]}, every: true}}", False),
    ):
        file.write_text(text.replace("{}", bound))
        assert read_acceptance(file).check()[0].kept == kept, bound


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("owed_cum:", "owed_money:"), "a.yaml:7: bounds.owed_money: no figure 'owed_money'"),
        (("{min: 0.5}", "{}"), "a.yaml:7: bounds.owed_cum: value error, a bound needs min or max"),
        (("{min: 0.5}", "{min: much}"), "a.yaml:7: bounds.owed_cum.min: input should be a valid"),
        (("  notice_permille: 500", "  notice: 500"), "a.yaml:4: conditions.notice: extra"),
        (("load: 1.5", "weight: 1.5"), "a.yaml:1: work: "),
        (("seeds: [1, 2]", "seeds: 3"), "a.yaml:1: work.seeds: must be a list"),
        (("bounds:", "bounds: &x\nbounds:"), "a.yaml:7: bounds: key is there twice"),
        (("quantum: 1h", "colour: red"), "no parameter 'colour'"),
        (("10d", "soon"), "mean_uptime is 'soon'"),
    ],
)
def test_bad_acceptance_files(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(ACCEPTANCE.replace(*change))
    got = run("check", file, "--jobs", 1)
    assert got.exit_code == 2, got.output
    assert message in got.stderr.replace("\n", " ")
