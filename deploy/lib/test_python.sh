#!/usr/bin/env bash
# A Python with what some tests compare against (numpy, gguf, safetensors), under $RISKKV_CACHE/test-venv; prints its path.
# Tests use it through RISKKV_PYTHON and skip what needs it where it is not set.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/common.sh"
source "$here/env.sh"

venv=$RISKKV_CACHE/test-venv
pins="numpy==2.2.6 gguf==0.17.1 safetensors==0.6.2"
if [ ! -f "$venv/riskkv-pins.txt" ] || [ "$(cat "$venv/riskkv-pins.txt")" != "$pins" ]; then
  say "making a Python environment for the tests ($pins)"
  rm -rf "$venv"
  read -ra packages <<< "$pins"
  quiet "$RISKKV_CACHE/logs/test-venv.log" "$(python_with_pip)" -m venv "$venv"
  quiet "$RISKKV_CACHE/logs/test-venv.log" "$venv/bin/python" -m pip install --disable-pip-version-check --only-binary=:all: "${packages[@]}"
  printf '%s' "$pins" > "$venv/riskkv-pins.txt"
fi
echo "$venv/bin/python"
