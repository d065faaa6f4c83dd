#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Plan search on a GPU, from nothing to a table, in under four minutes:
#   1. builds the CUDA code for the card that is here (or the architectures in $CUDA_ARCHS)
#   2. compares 600 random worlds on the card and on the CPU, bit for bit
#   3. measures trials a second on one core, all cores and the card, and where the card wins
# The table goes to standard output and to $OUT (a folder; default build/device_check).
#
#   bash benchmarks/device_check.sh
#
# Needs nvcc 12.8 or newer and a C++20 compiler ($CXX); no CMake, no other library. Without a device
# it builds, says so, measures the CPU alone and exits with 3.
set -euo pipefail
cd "$(dirname "$0")/.."
OUT=${OUT:-build/device_check}
BUILD=build/device
mkdir -p "$OUT" "$BUILD"
log=$OUT/build.log

nvcc=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if [ ! -x "$nvcc" ]; then
  echo "error: no nvcc; set CUDACXX to the CUDA compiler" >&2
  exit 1
fi
card=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1 || true)
arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -1 | tr -d . || true)
archs=${CUDA_ARCHS:-${arch:-90}}
echo "card: ${card:-none found}; building for $archs"
gencode=()
for a in ${archs//;/ }; do
  gencode+=("-gencode=arch=compute_$a,code=sm_$a")
done
includes="-Iinclude -Isrc/cuda -Itests/support"
# The two files at once, and the kernels of the first on as many cores as there are.
"${CXX:-g++}" -O3 -std=c++20 $includes -c benchmarks/plan_search/device.cc \
  -o "$BUILD/device.o" >"$log.host" 2>&1 &
host=$!
ok=true
"$nvcc" -O3 -std=c++17 "${gencode[@]}" --split-compile=0 $includes -c src/cuda/plan_device.cu \
  -o "$BUILD/plan_device.o" >"$log" 2>&1 || ok=false
wait $host || ok=false
cat "$log.host" >>"$log" && rm "$log.host"
$ok && "$nvcc" "$BUILD/device.o" "$BUILD/plan_device.o" -o "$BUILD/plan_device" >>"$log" 2>&1 || {
  tail -20 "$log" >&2
  echo "error: the build failed; see $log" >&2
  exit 1
}
echo "built in $SECONDS s"

if command -v compute-sanitizer >/dev/null && [ -n "$card" ]; then
  timeout 40 compute-sanitizer --tool racecheck "$BUILD/plan_device" --worlds 4 --budget 0 2>&1 |
    tail -3 | tee "$OUT/racecheck.txt" || echo "racecheck did not finish in 40 s"
fi
left=$((200 - SECONDS))
"$BUILD/plan_device" --budget "$((left > 90 ? 90 : left < 20 ? 20 : left))" | tee "$OUT/device.md"
if [ -z "$card" ]; then
  echo "NO DEVICE: identity and the GPU's columns were not measured ($SECONDS s)"
  exit 3
fi
echo "done in $SECONDS s"
