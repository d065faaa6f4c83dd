#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# From a fresh checkout to a first result: builds Tenure, simulates a month of a busy institute
# cluster (1,024 GPUs, 15 teams, 2.5 times as much work as there are GPUs, half of it funded) under
# four scheduling policies, and compares what each team got with what it was owed.
#
#   bash examples/quickstart.sh           three seeds
#   bash examples/quickstart.sh --quick   one seed, seven days
set -euo pipefail

seeds=41-43
extra=()
case "${1:-}" in
  "") ;;
  --quick)
    seeds=41
    extra=(--days 7)
    ;;
  -h | --help) sed -n '4,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 0 ;;
  *) echo "error: unknown argument '$1' (--quick)" >&2 && exit 2 ;;
esac

source "$(dirname "${BASH_SOURCE[0]}")/../tests/setup.sh"
setup_system_packages && setup_python || exit 1

results="$TENURE_ROOT/build/quickstart"
mkdir -p "$results"
"$TENURE_VENV/bin/tenure" compare --scenario institute --load 1.7 --seeds "$seeds" \
  --policies priority,fairtree,ai2,budget ${extra[@]+"${extra[@]}"} \
  --json "$results/result.json" --plot "$results/result.png"

echo
echo "Numbers: build/quickstart/result.json"
echo "Picture: build/quickstart/result.png"
echo "More:    build/venv/bin/tenure --help"
