#!/usr/bin/env bash
# Puts what setup has fetched where the image build finds it (build/docker-cache), so that the build needs no PyPI.
# Optional: without it the image build fetches the same files itself.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/common.sh"
source "$here/env.sh"

stage=$repo_root/build/docker-cache
rm -rf "$stage"
mkdir -p "$stage/downloads" "$stage/models"
# Links where the file system allows, copies elsewhere.
link() { if [ -f "$1" ]; then ln "$1" "$2/" 2>/dev/null || cp --preserve=timestamps "$1" "$2/"; fi; }
link "$RISKKV_CACHE/downloads/llama_cpp_python-$llama_version.tar.gz" "$stage/downloads"
link "$RISKKV_CACHE/models/smollm2-135m-instruct-q4_1.gguf" "$stage/models"
