#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The gate of the binary interface: what libtenure.so exports against tests/capi/tenure.abi, and the
# values of the header's enumerations against tenure.values. Needs abidw and abidiff (Debian:
# abigail-tools); without them it says so and exits with 77, which ctest shows as skipped.
#
#   abi.sh check LIBRARY HEADER WORK     no function, enum value or field may have changed or gone
#   abi.sh breaks LIBRARY HEADER WORK    headers that break the interface in several ways are compiled
#                                        and refused; extensions are compiled and accepted
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

# dump LIBRARY HEADERS NAME: its interface in NAME.abi. The values of enumerations, most of which no
# function names (it takes an int32_t), in NAME.values.
dump() {
  "${CC:-cc}" -E -P -DTENURE_EXPERIMENTAL "$2/tenure.h" |
    grep -oE '\bTENURE_[A-Z0-9_]+ = -?[0-9]+' | LC_ALL=C sort >"$3.values"
  abidw --out-file "$3.abi" --headers-dir "$2" --drop-private-types --drop-undefined-syms \
    --exported-interfaces-only --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed "$1"
}

# differs OLD NEW (names of dumps): prints what a binary built for OLD may not like in NEW; status 0
# if there is any. The suppressions would also hide a field that moves, so those are looked for first.
differs() {
  local options=(--no-added-syms --drop-private-types) report
  if ! report="$(LC_ALL=C comm -23 "$1.values" "$2.values")" || [[ -n "$report" ]]; then
    echo "no longer so: $report"
    return 0
  fi
  report="$(abidiff "${options[@]}" "$1.abi" "$2.abi" || true)"
  if grep -qE 'data member (change|deletion)|offset changed' <<<"$report"; then
    echo "$report"
    return 0
  fi
  ! abidiff "${options[@]}" --suppressions "$here/abi.suppr" "$1.abi" "$2.abi"
}

# compiled NAME SED-PROGRAM: the header, changed like that, with a body for each function, as a shared
# library; its interface in NAME.abi.
compiled() {
  local folder="$work/$1"
  mkdir -p "$folder/headers"
  sed -E "$2" "$header" >"$folder/headers/tenure.h"
  if [[ "$1" != unchanged ]] && cmp -s "$header" "$folder/headers/tenure.h"; then
    echo "error: the change '$1' changes nothing" >&2
    exit 1
  fi
  {
    printf '#define TENURE_EXPERIMENTAL\n#include "tenure.h"\n'
    "${CC:-cc}" -E -P -DTENURE_EXPERIMENTAL "$folder/headers/tenure.h" | tr '\n' ' ' | tr ';' '\n' |
      sed -nE 's/^ *__attribute__\(\(visibility\("default"\)\)\) *(.*)$/\1/p' |
      sed -E 's/^(void [a-z_]+\(.*)$/\1 {}/; t; s/$/ { return 0; }/'
  } >"$folder/library.c"
  "${CC:-cc}" -g -fPIC -shared -w -I "$folder/headers" -o "$folder/library.so" "$folder/library.c"
  dump "$folder/library.so" "$folder/headers" "$work/$1"
}
refused() {
  compiled "$1" "$2"
  if ! differs "$work/unchanged" "$work/$1" >"$work/$1.txt"; then
    echo "error: not noticed: $1" >&2
    exit 1
  fi
  echo "refused, as it should: $1"
}
accepted() {
  compiled "$1" "$2"
  if differs "$work/unchanged" "$work/$1" >"$work/$1.txt"; then
    cat "$work/$1.txt" >&2
    echo "error: should be accepted: $1" >&2
    exit 1
  fi
  echo "accepted, as it should: $1"
}

case "$command" in
  check | update)
    dump "$library" "$work/headers" "$work/now"
    if ! grep -q "<function-decl name='tenure_scheduler_decide'" "$work/now.abi"; then
      echo "error: $library has no debug information about its interface" >&2
      exit 1
    fi
    if [[ "$command" == update ]]; then
      cp "$work/now.abi" "$here/tenure.abi"
      cp "$work/now.values" "$here/tenure.values"
    elif differs "$here/tenure" "$work/now"; then
      echo "error: the binary interface is not that of tests/capi/tenure.abi" >&2
      exit 1
    fi
    ;;
  breaks)
    compiled unchanged ''
    functions="$(grep -c "<function-decl name='tenure_" "$work/unchanged.abi")"
    if [[ "$functions" -ne "$(grep -c '^TENURE_API' "$header")" ]]; then
      echo "error: $functions functions were compiled, the header has others" >&2
      exit 1
    fi
    workload='/^typedef struct tenure_workload /,/^} tenure_workload;/'
    refused function-removed '/^TENURE_API tenure_status tenure_run_ended/,/;$/d'
    refused parameter-changed '/tenure_workload_cancel\(/ s/uint64_t workload/uint32_t workload/'
    refused parameter-added '/tenure_workload_cancel\(/ s/uint64_t workload/&, int32_t why/'
    refused result-changed 's/uint32_t tenure_version\(void\)/uint64_t tenure_version(void)/'
    refused enum-value-changed 's/(TENURE_ERROR_REENTRANT =) -8/\1 -12/'
    refused enum-value-removed '/TENURE_NODE_DRAINING =/d'
    refused field-removed "$workload { /int64_t checkpoint_interval_us;/d }"
    refused field-moved "$workload { s/^ *uint64_t id;/  int64_t before_us; &/ }"
    refused field-retyped "$workload { s/int32_t priority;/float priority;/ }"
    refused element-grown 's/^\} tenure_start;/  int64_t later_us;\n&/'
    accepted field-appended 's/^\} tenure_workload;/  int64_t later_us;\n&/'
    accepted enum-value-added 's/(TENURE_ERROR_INTERNAL = -10)/\1, TENURE_ERROR_LATER = -11/'
    accepted function-added 's/^TENURE_API uint32_t tenure_version/TENURE_API int32_t tenure_later(void);\n&/'
    ;;
  *)
    echo "error: unknown command '$command'" >&2
    exit 2
    ;;
esac
