#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# pack_deb.sh CPACK BUILD WORK: packs BUILD as a .deb, checks what it says of itself and unpacks it to
# WORK/unpacked.
set -euo pipefail
cpack="$1" build="$2" work="$3"
if ! command -v dpkg-shlibdeps >/dev/null; then
  echo "skipped: dpkg-shlibdeps not found (Debian: apt-get install dpkg-dev)"
  exit 77
fi
rm -rf "$work"
mkdir -p "$work"
(cd "$build" && "$cpack" -G DEB -B "$work/packed" >"$work/cpack.log" 2>&1) || {
  cat "$work/cpack.log" >&2
  exit 1
}
debs=("$work"/packed/*.deb)
if [[ ${#debs[@]} -ne 1 ]]; then
  echo "error: ${#debs[@]} packages, one expected: ${debs[*]}" >&2
  exit 1
fi
dpkg-deb --field "${debs[0]}"
depends="$(dpkg-deb --field "${debs[0]}" Depends)"
for library in libabsl libstdc++6 libc6; do
  if [[ "$depends" != *"$library"* ]]; then
    echo "error: the package does not depend on $library: $depends" >&2
    exit 1
  fi
done
dpkg-deb --extract "${debs[0]}" "$work/unpacked"
library="$(find "$work/unpacked" -name 'libtenure.so.*.*')"
if [[ -z "$library" ]]; then
  echo "error: no libtenure.so in the package" >&2
  exit 1
fi
if readelf --sections "$library" | grep -q '\.debug_info'; then
  echo "error: $library is not stripped" >&2
  exit 1
fi
