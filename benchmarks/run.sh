#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the release preset and measures:
#   bash benchmarks/run.sh --json FILE              # targets: [{name, value, unit, target, met, how}]
#   bash benchmarks/run.sh --json FILE --trace SWF  # with the trace; needs build/venv
#   bash benchmarks/run.sh [PATTERN]                # all benchmarks whose name matches, and growth
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"
mkdir -p build/logs
if ! { cmake --preset release && cmake --build --preset release --target build_benchmarks; } \
  >build/logs/benchmarks.log 2>&1; then
  tail -n 30 build/logs/benchmarks.log >&2
  echo "error: the benchmarks do not build; the whole log is build/logs/benchmarks.log" >&2
  exit 1
fi
exec python3 benchmarks/run.py build/release "$@"
