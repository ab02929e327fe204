#!/bin/sh
# The init service of docker-compose.yml: fills the model volume and the predictor volume, and leaves alone what is there.
#   RISKKV_CALIBRATE_SECONDS  how long to calibrate (0: no predictor set; only exact moves then)
set -eu
models=/var/lib/riskkv/models
predictors=/var/lib/riskkv/predictors
text=/opt/riskkv/text
model=$models/model.gguf

if [ ! -f "$model" ]; then
  echo "init: no model in the volume, copying the demonstration model"
  cp /opt/riskkv/models/smollm2-135m-instruct-q4_1.gguf "$model.part"
  mv "$model.part" "$model"
fi
if [ -z "$(ls "$predictors")" ] && [ "${RISKKV_CALIBRATE_SECONDS:-120}" != 0 ]; then
  echo "init: no predictor set in the volume, calibrating one for ${RISKKV_CALIBRATE_SECONDS:-120} s"
  rm -rf "$predictors/.part"
  # The workers wait for this: all cores are free.
  unset OPENBLAS_NUM_THREADS
  riskkv calibrate --model "$model" --threads 0 --seconds "${RISKKV_CALIBRATE_SECONDS:-120}" --temp /tmp \
    --fit "$text/fit.txt" --select "$text/select.txt" --confirm "$text/confirm.txt" --out "$predictors/.part/"
  mv "$predictors"/.part/* "$predictors/"
  rmdir "$predictors/.part"
fi
echo "init: done"
ls -l "$models" "$predictors"
