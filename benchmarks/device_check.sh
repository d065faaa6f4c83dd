#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Plan search on a GPU, from nothing to a table, in under four minutes:
#   1. builds the CUDA back end for the card that is here (or the architectures in $CUDA_ARCHS)
#   2. compares 600 random searches on the card and on the CPU, bit for bit
#   3. measures trials a second on one core, all cores and the card, and where the card wins
# The table goes to standard output and to $OUT (a folder; default build/device_check).
#
#   bash benchmarks/device_check.sh
#
# Without a device it builds, says so, measures the CPU alone and exits with 3.
set -euo pipefail
cd "$(dirname "$0")/.."
OUT=${OUT:-build/device_check}
BUILD=build/device
mkdir -p "$OUT"
log=$OUT/build.log

nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if [ ! -x "$nvcc" ]; then
  echo "error: no nvcc; set CUDACXX to the CUDA compiler" >&2
  exit 1
fi
card=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1 || true)
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d . || true)
archs=${CUDA_ARCHS:-${arch:-90}-real}
echo "card: ${card:-none found}; building for $archs"
cmake -S tests/plan/cuda -B "$BUILD" -DTENURE_SOURCE_DIR="$PWD" -DCMAKE_CUDA_COMPILER="$nvcc" \
  -DCMAKE_CUDA_ARCHITECTURES="$archs" >"$log" 2>&1 &&
  cmake --build "$BUILD" --parallel "$(nproc)" >>"$log" 2>&1 || {
  tail -20 "$log" >&2
  echo "error: the build failed; see $log" >&2
  exit 1
}
echo "built in $SECONDS s"

"$BUILD/cuda_agrees" | tee "$OUT/identity.txt"
if command -v compute-sanitizer >/dev/null && [ -n "$card" ]; then
  timeout 40 compute-sanitizer --tool racecheck "$BUILD/cuda_agrees" 4 2>&1 | tail -3 |
    tee "$OUT/racecheck.txt" || echo "racecheck did not finish in 40 s"
fi
left=$((215 - SECONDS))
"$BUILD/plan_sweep" --budget "$((left > 90 ? 90 : left < 20 ? 20 : left))" | tee "$OUT/sweep.md"
if [ -z "$card" ]; then
  echo "NO DEVICE: identity and the GPU's columns were not measured ($SECONDS s)"
  exit 3
fi
echo "done in $SECONDS s"
