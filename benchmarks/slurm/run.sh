#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The same queue through Debian's Slurm and through Tenure, on this machine, one after the other:
#
#   bash benchmarks/run.sh QueueBeside           # builds queue_bench
#   sudo bash benchmarks/slurm/run.sh [FOLDER]   # 5 to 15 minutes; prints one table
#
# 64 nodes of 8 GPUs, all busy with work that does not end; $QUEUES (1000 10000 30000) requests of 1,
# 2 or 4 GPUs wait, of 150 accounts in 15 teams. Needs root, the packages that lab.sh names, about
# 1 GB of memory and ports 17000 to 17164 (LAB_PORT). FOLDER (a new temporary one) is removed. A
# backfill cycle is waited for $PATIENCE (120) seconds. Times are CPU times, but wall time for the main
# cycle of Slurm. Never part of continuous integration.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
# shellcheck source=benchmarks/slurm/lab.sh
. "$here/lab.sh"
folder=${1:-$(mktemp -d)}
bench=${QUEUE_BENCH:-$root/build/release/benchmarks/queue_bench}
patience=${PATIENCE:-120}
accounts=150

lab_needs || exit 1
[ -x "$bench" ] || { echo "error: $bench is missing: bash benchmarks/run.sh QueueBeside" >&2; exit 1; }
[ ! -e "$folder/etc" ] || { echo "error: $folder is in use" >&2; exit 1; }

figure() { # main|backfill name: a number of sdiag
  timeout 60 sdiag | awk -v part="$1" -v name="$2" '
    /^Main schedule/ { now = "main" }
    /^Backfilling/ { now = "backfill" }
    /^Latency/ { now = "" }
    now == part && index($0, name ":") { sub(/.*: */, ""); print $1; exit }'
}
milliseconds() { awk -v us="$1" 'BEGIN { printf "%.3g", us / 1000 }'; }
some_cycles() { [ "$(figure "$1" 'Total cycles')" -ge "$2" ]; }

reset() { timeout 60 sdiag -r >/dev/null; }
backfill_cpu() { # ns that the controller's backfill thread has run
  local task
  for task in /proc/"$(cat "$folder/run/slurmctld.pid")"/task/*; do
    [ "$(cat "$task/comm")" != bckfl ] || cut -d' ' -f1 "$task/schedstat"
  done
}

main_cycle() { # the mean of three or more; wall time, which no other thread of it competes for
  reset
  lab_wait "$patience" some_cycles main 3 || { echo "-"; return; }
  echo "$(milliseconds "$(figure main 'Mean cycle')") ms"
}
backfill_cycle() { # parameters: CPU time of a cycle under them
  local before cycles
  lab_parameters "$1"
  reset
  lab_wait "$patience" some_cycles backfill 1 || true  # it may have begun under others
  reset
  before=$(backfill_cpu)
  if lab_wait "$patience" some_cycles backfill 1; then
    cycles=$(figure backfill 'Total cycles')
    echo "$(milliseconds $((($(backfill_cpu) - before) / 1000 / cycles))) ms," \
      "$(figure backfill 'Last depth cycle') tested"
  else
    echo "not done in $patience s ($(milliseconds $((($(backfill_cpu) - before) / 1000))) ms of CPU)"
  fi
}
tenure() { # benchmark: CPU time of one call
  "$bench" --benchmark_filter="^$1\$" --benchmark_min_time=0.05 --benchmark_format=csv 2>/dev/null |
    awk -F, 'END { printf "%.3g ms", $4 / 1000 }'
}

mkdir -p "$folder"
cc -O2 "$here/submit.c" -o "$folder/submit" -lslurm
trap 'lab_down "$folder" >/dev/null 2>&1' EXIT
echo "bringing up 64 nodes, $accounts accounts ..." >&2
lab_up "$folder" 64 "$accounts" || { echo "error: see $folder/log" >&2; trap - EXIT; exit 1; }
running() { [ "$(squeue -h -t R | wc -l)" -ge 64 ]; }
"$folder/submit" 64 "$accounts" 8
lab_wait 300 running

# Main cycles look at the whole queue; backfill first at 1,000 requests, as many sites have it.
whole=default_queue_depth=200000,sched_interval=5,max_sched_time=60
rare=$whole,bf_interval=3600
some=$whole,bf_interval=1,bf_max_time=600,bf_continue,bf_max_job_test=1000
all=$whole,bf_interval=1,bf_max_time=600,bf_continue,bf_max_job_test=200000

echo "| waiting | Slurm: main cycle | Tenure: pass, nothing can start | Slurm: backfill of 1,000 |" \
  "Slurm: backfill of all | Tenure: pass with promises | Tenure: first pass |"
echo "|---:|---:|---:|---:|---:|---:|---:|"
waiting=0
for queue in ${QUEUES:-1000 10000 30000}; do
  lab_parameters "$rare"
  "$folder/submit" $((queue - waiting)) "$accounts" 0
  waiting=$queue
  sleep 10
  echo "| $queue | $(main_cycle) | $(tenure "BM_QueueBeside_Pass/$queue") |" \
    "$(backfill_cycle "$some") | $(backfill_cycle "$all") |" \
    "$(tenure "BM_QueueBeside_Promises/$queue") | $(tenure "BM_QueueBeside_First/$queue") |"
done
