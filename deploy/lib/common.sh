# Helpers every script here sources. Nothing runs by sourcing it.
# shellcheck shell=bash disable=SC2034

repo_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

say()  { printf '[riskkv %s] %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
warn() { printf '[riskkv] warning: %s\n' "$*" >&2; }
# die WHAT [WHAT TO DO]
die()  { printf '[riskkv] error: %s\n' "$1" >&2; [ $# -lt 2 ] || printf '[riskkv]   what to do: %s\n' "$2" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Runs a command as root: directly, or through sudo.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif have sudo; then
    sudo "$@"
  else
    die "this step needs root: $*" "run it as root, or install sudo"
  fi
}

# quiet LOG CMD...: keeps a long command's output in LOG and shows its end only when the command fails.
quiet() {
  local log=$1; shift
  mkdir -p "$(dirname "$log")"
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    die "failed: $*" "the whole output is in $log"
  fi
}

# check_sha256 FILE DIGEST: true when the file is there and is the one that was pinned.
check_sha256() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]; }

# A python3 that has pip, wherever it is: pyenv's, Debian's, or $RISKKV_PYTHON.
python_with_pip() {
  local p
  for p in "${RISKKV_PYTHON:-}" python3 /usr/bin/python3; do
    if [ -n "$p" ] && "$p" -m pip --version >/dev/null 2>&1; then
      echo "$p"
      return
    fi
  done
  die "no python3 with pip" "apt-get install python3-pip, or set RISKKV_PYTHON to a python that has pip"
}

# pip_fetch DIR REQUIREMENT SHA256: one pinned file from the package index into DIR, never installed. pip itself refuses
# another digest, and does so before it would run anything a source package contains.
pip_fetch() {
  local dir=$1 requirement=$2 digest=$3 python
  python=$(python_with_pip)
  mkdir -p "$dir"
  printf '%s --hash=sha256:%s\n' "$requirement" "$digest" > "$dir/requirement.txt"
  quiet "$dir/pip.log" "$python" -m pip download --disable-pip-version-check --no-cache-dir --no-deps --require-hashes \
    --dest "$dir" --requirement "$dir/requirement.txt"
}
