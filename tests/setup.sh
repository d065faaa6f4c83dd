# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Set-up that tests/run.sh and examples/quickstart.sh share; to be sourced. Everything it makes lies
# under build/: logs in build/logs, the Python environment in build/venv.
#
#   setup_system_packages   installs the Debian or Ubuntu packages that are missing
#   setup_python            build/venv with this checkout's `tenure`, rebuilt when a source changed
#   setup_build PRESET      configures and builds build/PRESET
#   step TEXT LOG CMD...    runs CMD with its output in build/logs/LOG, shown only on failure
#
# Environment: TENURE_JOBS parallel jobs (default: all processors); TENURE_PYTHON the interpreter to
# use (default: the system's python3, at least 3.10).

TENURE_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
TENURE_VENV="$TENURE_ROOT/build/venv"
TENURE_LOGS="$TENURE_ROOT/build/logs"
TENURE_JOBS="${TENURE_JOBS:-$(nproc)}"
TENURE_PACKAGES=(
  g++ cmake ninja-build pkg-config libabsl-dev libgtest-dev libgmock-dev libbenchmark-dev
  libyaml-cpp-dev abigail-tools dpkg-dev
  python3 python3-dev python3-venv ca-certificates)
mkdir -p "$TENURE_LOGS"

fail() {
  echo "error: $*" >&2
  return 1
}

step() {
  local text="$1" log="$TENURE_LOGS/$2" began=$SECONDS
  shift 2
  printf '%s ... ' "$text"
  if "$@" >"$log" 2>&1 </dev/null; then
    echo "ok ($((SECONDS - began)) s)"
    return 0
  fi
  echo "failed"
  # The lines that name the errors first: a parallel build buries them.
  grep -nE '(error|fatal|FAILED)[: ]' "$log" | head -n 20 >&2
  echo "--- last lines of ${log#"$TENURE_ROOT"/} ---" >&2
  tail -n 40 "$log" >&2
  return 1
}

setup_system_packages() {
  local missing=() package as_root=()
  if command -v dpkg-query >/dev/null; then
    for package in "${TENURE_PACKAGES[@]}"; do
      if [[ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null)" != "ii "* ]]; then
        missing+=("$package")
      fi
    done
    [[ ${#missing[@]} -eq 0 ]] && return 0
    if [[ $EUID -ne 0 ]]; then
      if ! command -v sudo >/dev/null; then
        fail "missing packages; as root, run: apt-get install ${missing[*]}"
        return 1
      fi
      as_root=(sudo)
    fi
    step "Updating the package lists" apt-update.log \
      "${as_root[@]}" apt-get update || return 1
    step "Installing ${missing[*]}" apt-install.log \
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y --no-install-recommends "${missing[@]}" || return 1
    return 0
  fi
  for package in c++ cmake ninja python3; do
    if ! command -v "$package" >/dev/null; then
      fail "$package not found; needed: a C++20 compiler, CMake 3.22, Ninja, Python 3.10 with its" \
        "headers, Abseil, GoogleTest and Google Benchmark"
      return 1
    fi
  done
}

# Prints the interpreter to use: 3.10 or newer, with venv and the C headers.
find_python() {
  local candidate
  for candidate in ${TENURE_PYTHON:+"$TENURE_PYTHON"} /usr/bin/python3 python3; do
    if "$candidate" - 2>/dev/null <<'PY'; then
import ensurepip, os, sys, sysconfig, venv
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(not (sys.version_info >= (3, 10) and os.path.exists(header)))
PY
      command -v "$candidate"
      return 0
    fi
  done
  fail "no Python 3.10 or newer with venv and headers (Debian: python3-venv python3-dev)"
}

# What the installed package is made of, and for which interpreter and place.
python_fingerprint() {
  (
    cd "$TENURE_ROOT" || exit 1
    echo "$TENURE_ROOT"
    "$1" -VV
    find . -path ./build -prune -o -path ./.git -prune -o -type f \( -path './include/*' -o -path './src/*' -o -path './python/*' \
      -o -path ./tests/setup.sh -o -path ./CMakeLists.txt -o -path ./pyproject.toml \
      -o -path ./README.md -o -path ./LICENSE -o -path ./NOTICE \) \
      -not -path './python/tests/*' -not -path './*/.*' -not -name '*.pyc' -print0 |
      LC_ALL=C sort -z | xargs -0 sha256sum
  ) | sha256sum | cut -d' ' -f1
}

# Writes the packages that building needs, one a line: pip does not isolate the build, so that an
# unchanged object file is not compiled again.
build_requirements() {
  "$TENURE_VENV/bin/python" - "$TENURE_ROOT/pyproject.toml" <<'PY'
import sys
try:
    import tomllib
except ModuleNotFoundError:
    from pip._vendor import tomli as tomllib
with open(sys.argv[1], "rb") as file:
    print("\n".join(tomllib.load(file)["build-system"]["requires"]))
PY
}

setup_python() {
  local python stamp="$TENURE_VENV/tenure.stamp" fingerprint pip requirements
  if [[ ! -f "$TENURE_ROOT/pyproject.toml" ]]; then
    fail "pyproject.toml not found in $TENURE_ROOT"
    return 1
  fi
  python="$(find_python)" || return 1
  fingerprint="$(python_fingerprint "$python")"
  if [[ -f "$stamp" && "$(<"$stamp")" == "$fingerprint" ]]; then
    return 0
  fi
  # An environment does not survive being moved or an interpreter upgrade.
  if [[ "$(cat "$TENURE_VENV/tenure.python" 2>/dev/null)" != "$TENURE_VENV $("$python" -VV)" ]]; then
    rm -rf "$TENURE_VENV" "$TENURE_ROOT/build/python"
    step "Creating build/venv with $python" venv.log "$python" -m venv "$TENURE_VENV" || return 1
    echo "$TENURE_VENV $("$python" -VV)" >"$TENURE_VENV/tenure.python"
  fi
  rm -f "$stamp"
  pip=("$TENURE_VENV/bin/python" -m pip --disable-pip-version-check --no-input install)
  mapfile -t requirements < <(build_requirements)
  if [[ ${#requirements[@]} -eq 0 ]]; then
    fail "pyproject.toml: no build-system.requires"
    return 1
  fi
  step "Installing the Python build tools" pip-build-tools.log \
    "${pip[@]}" "${requirements[@]}" || return 1
  step "Building and installing the Python package (a few minutes the first time)" pip-install.log \
    env CMAKE_BUILD_PARALLEL_LEVEL="$TENURE_JOBS" SKBUILD_BUILD_DIR="$TENURE_ROOT/build/python" \
    "${pip[@]}" -v --no-build-isolation "${TENURE_ROOT}[plot,test]" || return 1
  echo "$fingerprint" >"$stamp"
}

setup_build() {
  local preset="$1" cache="$TENURE_ROOT/build/$1/CMakeCache.txt"
  # A build folder made in another place cannot be used here.
  if [[ -f "$cache" ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$TENURE_ROOT" "$cache"; then
    rm -rf "$TENURE_ROOT/build/$preset"
  fi
  cd "$TENURE_ROOT" || return 1
  step "Configuring build/$preset" "configure-$preset.log" cmake --preset "$preset" || return 1
  step "Building build/$preset (a few minutes the first time)" "build-$preset.log" \
    cmake --build --preset "$preset" -j "$TENURE_JOBS"
}
