#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The gate of the binary interface: what libtenure.so exports against tests/capi/tenure.abi. Needs
# abidw and abidiff (Debian: abigail-tools); without them it says so and exits with 77, which ctest
# shows as skipped.
#
#   abi.sh check LIBRARY HEADER WORK     no function, enum value or field may have changed or gone
#   abi.sh breaks LIBRARY HEADER WORK    breaks of several kinds are refused, extensions are not
#   abi.sh update LIBRARY HEADER WORK    writes the baseline; for a release that adds something
#
# A field that is appended to a struct with a struct_size is no break (abi.suppr lists them), nor is
# a new function.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
if [[ $# -ne 4 ]]; then
  sed -n '8,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
command="$1" library="$2" header="$3" work="$4"
for tool in abidw abidiff; do
  if ! command -v "$tool" >/dev/null; then
    echo "skipped: $tool not found (Debian: apt-get install abigail-tools)"
    exit 77
  fi
done
mkdir -p "$work/headers"
cp "$header" "$work/headers/" # types of other headers are nobody's business
now="$work/now.abi"
abidw --headers-dir "$work/headers" --drop-private-types --drop-undefined-syms \
  --exported-interfaces-only --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed \
  --out-file "$now" "$library"
if ! grep -q "<function-decl name='tenure_scheduler_decide'" "$now"; then
  echo "error: $library has no debug information about its interface" >&2
  exit 1
fi

# differs OLD NEW: prints what a binary built for OLD may not like in NEW; status 0 if there is any.
# The suppressions would also hide a field that moves, so those are looked for first.
differs() {
  local options=(--no-added-syms --drop-private-types) report
  report="$(abidiff "${options[@]}" "$1" "$2" || true)"
  if grep -qE 'data member (change|deletion)|offset changed' <<<"$report"; then
    echo "$report"
    return 0
  fi
  ! abidiff "${options[@]}" --suppressions "$here/abi.suppr" "$1" "$2"
}

# refused NAME SED-PROGRAM: the library, changed like that, must not pass for what it is.
refused() {
  sed -E "$2" "$now" >"$work/$1.abi"
  if cmp -s "$now" "$work/$1.abi"; then
    echo "error: the change '$1' changes nothing" >&2
    exit 1
  fi
  if differs "$now" "$work/$1.abi" >"$work/$1.txt"; then
    echo "refused, as it should: $1"
  else
    echo "error: not noticed: $1" >&2
    exit 1
  fi
}
accepted() {
  sed -E "$2" "$now" >"$work/$1.abi"
  if cmp -s "$now" "$work/$1.abi" || differs "$now" "$work/$1.abi"; then
    echo "error: should be accepted and a change: $1" >&2
    exit 1
  fi
  echo "accepted, as it should: $1"
}

case "$command" in
  check)
    if differs "$here/tenure.abi" "$now"; then
      echo "error: the binary interface is not that of tests/capi/tenure.abi" >&2
      exit 1
    fi
    ;;
  update) cp "$now" "$here/tenure.abi" ;;
  breaks)
    refused function-removed "/<elf-symbol name='tenure_run_ended'/d; /<function-decl name='tenure_run_ended'/,/<\/function-decl>/d"
    refused enum-value-changed "s/(name='TENURE_ERROR_REENTRANT' value=)'-8'/\1'-88'/"
    refused field-moved "/class-decl name='tenure_workload'/,/<\/class-decl>/ s/layout-offset-in-bits='192'/layout-offset-in-bits='224'/"
    refused field-removed "/class-decl name='tenure_workload'/,/<\/class-decl>/ { /layout-offset-in-bits='192'/,/<\/data-member>/d }"
    refused element-grown "/class-decl name='tenure_start'/ s/size-in-bits='192'/size-in-bits='256'/"
    accepted field-appended "/class-decl name='tenure_workload'/,/<\/class-decl>/ {
      s/(name='tenure_workload' size-in-bits=)'704'/\1'768'/
      s|</class-decl>|<data-member access='public' layout-offset-in-bits='704'><var-decl name='later_us' type-id='$(sed -n "s/.*<typedef-decl name='int64_t'.* id='\([^']*\)'.*/\1/p" "$now" | head -1)' visibility='default'/></data-member></class-decl>|
    }"
    ;;
  *)
    echo "error: unknown command '$command'" >&2
    exit 2
    ;;
esac
