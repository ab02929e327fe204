#!/usr/bin/env bash
# Stages this machine's own binaries for deploy/Dockerfile.host. Fails, saying why, where they cannot run in the image: no
# build here, or not a Debian 12.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/common.sh"
source "$here/env.sh"

codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
[ "$codename" = bookworm ] || { say "this is '$codename', not bookworm: the image is built from source"; exit 1; }
binaries=(riskkv riskkv-worker riskkv-coordinator)
# The newest of the two: a test run has just made build/dev.
found=""
for folder in "$repo_root/build/dev/bin" "$repo_root/build/bin"; do
  complete=1
  for binary in "${binaries[@]}"; do
    [ -x "$folder/$binary" ] || complete=0
  done
  if [ $complete = 1 ] && { [ -z "$found" ] || [ "$folder/riskkv-worker" -nt "$found/riskkv-worker" ]; }; then
    found=$folder
  fi
done
[ -n "$found" ] || { say "no binaries here (deploy/build.sh makes them): the image is built from source"; exit 1; }
stage=$repo_root/build/docker-cache
for binary in "${binaries[@]}"; do
  install -D --strip -t "$stage/bin" "$found/$binary"
done
"$here/demo_text.sh" "$stage/text"
say "the image is made around the binaries of ${found#"$repo_root/"}"
