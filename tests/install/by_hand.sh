#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# by_hand.sh COMPILER SOURCE LIBDIR PROGRAM VERSION: builds a C99 program with what pkg-config says
# about the copy in LIBDIR, as strictly as a consumer may, and runs it.
set -euo pipefail
compiler="$1" source="$2" libdir="$3" program="$4" version="$5"
if ! command -v pkg-config >/dev/null; then
  echo "skipped: pkg-config not found"
  exit 77
fi
# No other copy can be found, not even the system's.
export PKG_CONFIG_LIBDIR="$libdir/pkgconfig"
unset PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
if [[ "$(pkg-config --modversion tenure)" != "$version" ]]; then
  echo "error: tenure.pc has another version than $version" >&2
  exit 1
fi
read -ra flags <<<"$(pkg-config --cflags --libs tenure)"
"$compiler" -std=c99 -Wall -Wextra -pedantic -Werror "$source" -o "$program" "${flags[@]}"
LD_LIBRARY_PATH="$libdir" "$program"
