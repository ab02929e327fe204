#!/usr/bin/env bash
# From a fresh machine to a running move of a request: setup, release build, texts, then `riskkv demo`, which calibrates
# a predictor set, starts a coordinator and two workers on this machine and moves a running generation between them.
#   deploy/demo.sh [ARGUMENTS OF riskkv demo...]     for instance --json, or --seconds 120
# The predictor set is calibrated at the first run and kept; --recalibrate makes another (riskkv demo --help).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/lib/common.sh"

"$here/setup.sh"
source "$here/lib/env.sh"
# Only what the demonstration runs; on stderr, so that --json alone is on stdout.
RISKKV_TARGETS="riskkv riskkv-worker riskkv-coordinator" "$here/build.sh" release >&2

# Texts of the user's own take the place of Debian's manuals.
arguments=(--model "$RISKKV_MODEL")
case " $* " in
  *" --text-dir"* | *" --fit"*) ;;
  *) arguments+=(--text-dir "$("$here/lib/demo_text.sh" "$repo_root/build/demo_text")") ;;
esac

say "demonstration"
exec "$repo_root/build/bin/riskkv" demo "${arguments[@]}" "$@"
