#!/usr/bin/env bash
# The tiny model from nothing: random weights, tasks, training, held-out check, model directory.
# `train_tiny.sh WORK OUT RECORDS SEED`; started again with the same folder it goes on.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$1 out=$2 records=$3 seed=$4
bin=${BIN:-.venv/bin}

mkdir -p "$work"
[ -f "$work/start/multiverse.json" ] ||
  "$bin/python" -m multiverse_trainer.tiny.start --out "$work/start" --seed "$seed"
[ -f "$work/tasks.jsonl" ] || {
  "$bin/python" -m multiverse_trainer.tiny.records --out "$work/tasks.part" \
    --count "$records" --seed "$seed"
  mv "$work/tasks.part" "$work/tasks.jsonl"
}
if compgen -G "$work/run/checkpoint-*/COMPLETE" >/dev/null; then
  "$bin/multiverse" train resume "$work/run"
else
  "$bin/multiverse" train run --preset tiny --model "$work/start" \
    --data "$work/tasks.jsonl" --output "$work/run"
fi
[ -d "$work/run/model" ] || { echo "stopped; start again to go on" >&2; exit 1; }
mkdir -p "$out"
cp "$work/run/model/"* "$out/"
"$bin/python" -m multiverse_trainer.tiny.heldout --model "$out"
