#!/usr/bin/env bash
# Where things are. `source deploy/lib/env.sh` exports, running it prints:
#   RISKKV_CACHE       what setup fetches and builds (default ${XDG_CACHE_HOME:-~/.cache}/riskkv)
#   RISKKV_LLAMA_ROOT  prefix of the installed llama.cpp; a value already set is kept
#   RISKKV_MODEL       the GGUF model; a value already set is kept

riskkv_lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=llama_pins.sh
source "$riskkv_lib/llama_pins.sh"

export RISKKV_CACHE=${RISKKV_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/riskkv}
export RISKKV_LLAMA_ROOT=${RISKKV_LLAMA_ROOT:-$RISKKV_CACHE/llama-$llama_version-$(llama_key)}
export RISKKV_MODEL=${RISKKV_MODEL:-$RISKKV_CACHE/models/smollm2-135m-instruct-q4_1.gguf}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  printf '%s=%s\n' RISKKV_CACHE "$RISKKV_CACHE" RISKKV_LLAMA_ROOT "$RISKKV_LLAMA_ROOT" RISKKV_MODEL "$RISKKV_MODEL"
fi
