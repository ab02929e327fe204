#!/usr/bin/env bash
# Puts grpcurl under $RISKKV_CACHE/bin, built from its Go module, and prints its path. One on the PATH is used as it is.
# Exits with 3 where there is no Go that can build it (Debian 12's is too old).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/common.sh"
source "$here/env.sh"

version=v1.9.3
if have grpcurl; then
  command -v grpcurl
  exit 0
fi
target=$RISKKV_CACHE/bin/grpcurl-$version
if [ ! -x "$target" ]; then
  go_version=$(go env GOVERSION 2>/dev/null || true)
  minor=$(sed -nE 's/^go1\.([0-9]+).*/\1/p' <<< "$go_version")
  if [ "${minor:-0}" -lt 21 ]; then
    warn "grpcurl needs Go 1.21 or newer to be built, here is ${go_version:-none}: install a newer Go, or grpcurl itself"
    exit 3
  fi
  say "building grpcurl $version (100 CPU seconds)"
  work=$(mktemp -d "${TMPDIR:-/tmp}/riskkv-grpcurl.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  cd "$work"
  GOBIN=$work quiet "$work/go.log" go install "github.com/fullstorydev/grpcurl/cmd/grpcurl@$version"
  mkdir -p "${target%/*}"
  mv "$work/grpcurl" "$target"
fi
echo "$target"
