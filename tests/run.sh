#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Sets everything up (Debian 12, Ubuntu 22.04 or newer; root or sudo only for missing packages),
# builds, and runs all tests: ctest, then pytest. Can be run again and again.
#
#   bash tests/run.sh                       everything, release build with assertions
#   bash tests/run.sh -R 'unit.Contract'    other arguments go to ctest
#   bash tests/run.sh --preset asan         dev, release, asan, tsan; Python not with sanitizers
#   bash tests/run.sh --only cpp|python     one of the two
#
# The last line is `N passed, N failed`; a failed set-up or build counts as a failure. Exit status 0
# only if nothing failed.
set -uo pipefail

usage() { sed -n '4,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

preset=release
only=all
ctest_arguments=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --preset | --only)
      if [[ $# -lt 2 ]]; then
        echo "error: $1 needs a value" >&2
        exit 2
      fi
      if [[ "$1" == --preset ]]; then preset="$2"; else only="$2"; fi
      shift 2
      ;;
    --preset=*) preset="${1#*=}" && shift ;;
    --only=*) only="${1#*=}" && shift ;;
    -h | --help) usage && exit 0 ;;
    *) ctest_arguments+=("$1") && shift ;;
  esac
done
case "$preset" in
  dev | release | asan | tsan | cuda) ;;
  *) echo "error: unknown preset '$preset' (dev, release, asan, tsan, cuda)" >&2 && exit 2 ;;
esac
case "$only" in
  all | cpp | python) ;;
  *) echo "error: unknown part '$only' (cpp, python)" >&2 && exit 2 ;;
esac

source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
passed=0
failed=0

finish() {
  echo "$passed passed, $failed failed"
  [[ $failed -eq 0 ]]
  exit
}

# add_counts FILE: adds the test counts of a JUnit XML file. Skipped tests count as neither.
add_counts() {
  local counts
  [[ -f "$1" ]] || return 1
  counts="$(python3 - "$1" <<'PY'
import sys
import xml.etree.ElementTree as ElementTree

cases = list(ElementTree.parse(sys.argv[1]).iter("testcase"))
failed = sum(any(child.tag in ("failure", "error") for child in case) for case in cases)
skipped = sum(
    case.find("skipped") is not None or case.get("status") in ("notrun", "disabled")
    for case in cases
    if case.find("failure") is None and case.find("error") is None
)
print(len(cases) - failed - skipped, failed)
PY
  )" || return 1
  passed=$((passed + ${counts% *}))
  failed=$((failed + ${counts#* }))
  [[ "$counts" != "0 0" ]]
}

run_ctest() {
  local junit="$TENURE_ROOT/build/$preset/ctest.xml" status before=$failed
  if ! setup_build "$preset"; then
    failed=$((failed + 1))
    return
  fi
  rm -f "$junit"
  # Failures with their output and the summary; passing tests would be hundreds of lines.
  ctest --preset "$preset" -j "$TENURE_JOBS" --no-tests=error --output-junit "$junit" \
    "${ctest_arguments[@]}" </dev/null 2>&1 |
    grep --line-buffered -vE '^ *Start +[0-9]+: |^ *[0-9]+/[0-9]+ Test .* Passed +[0-9.]+ sec$'
  status=${PIPESTATUS[0]}
  if ! add_counts "$junit" || [[ $status -ne 0 && $failed -eq $before ]]; then
    echo "error: ctest ran no test or broke off (status $status)" >&2
    failed=$((failed + 1))
  fi
}

run_pytest() {
  local junit="$TENURE_ROOT/build/pytest.xml" status before=$failed
  if ! setup_python; then
    failed=$((failed + 1))
    return
  fi
  rm -f "$junit"
  # From another folder, so that the installed package is tested and not the source folder.
  (cd "$TENURE_ROOT/build" && "$TENURE_VENV/bin/python" -m pytest -q -p no:cacheprovider \
    --rootdir "$TENURE_ROOT" --junitxml "$junit" "$TENURE_ROOT/python/tests" </dev/null)
  status=$?
  if ! add_counts "$junit" || [[ $status -ne 0 && $failed -eq $before ]]; then
    echo "error: pytest ran no test or broke off (status $status)" >&2
    failed=$((failed + 1))
  fi
}

if ! setup_system_packages; then
  failed=1
  finish
fi
if [[ "$only" != python ]]; then
  run_ctest
fi
if [[ "$only" == python || ("$only" == all && "$preset" != asan && "$preset" != tsan) ]]; then
  run_pytest
fi
finish
