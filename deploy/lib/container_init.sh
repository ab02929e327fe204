#!/bin/sh
# The init service of docker-compose.yml: fills the model volume and the predictor volume, and leaves alone what is there.
#   RISKKV_CALIBRATE_SECONDS  how long to calibrate (0: no predictor set; only exact moves then)
set -eu
models=/var/lib/riskkv/models
predictors=/var/lib/riskkv/predictors
model=$models/model.gguf

if [ ! -f "$model" ]; then
  echo "init: no model in the volume, copying the demonstration model"
  cp /opt/riskkv/models/smollm2-135m-instruct-q4_1.gguf "$model.part"
  mv "$model.part" "$model"
fi
if [ -z "$(ls -A "$predictors")" ] && [ "${RISKKV_CALIBRATE_SECONDS:-120}" != 0 ]; then
  echo "init: no predictor set in the volume, calibrating one for ${RISKKV_CALIBRATE_SECONDS:-120} s"
  riskkv calibrate --model "$model" --text-dir /opt/riskkv/text --seconds "${RISKKV_CALIBRATE_SECONDS:-120}" \
    --out "$predictors/.part"
  mv "$predictors/.part" "$predictors/demo.riskkv"
fi
echo "init: done"
ls -l "$models" "$predictors"
