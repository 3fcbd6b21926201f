#!/usr/bin/env bash
# Writes deploy/docker/locks: for each image what it installs beside our own packages, versions (those
# of constraints.txt) with the hashes of all files of them. Needs the package index. SGLang's image is
# fixed by SGLang's own pins.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=build/lock-tools
if [ ! -x "$tools/bin/uv" ]; then
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
fi

lock() { # IMAGE REQUIREMENTS: setuptools builds our packages
  local image=$1 ours=() package
  for package in cli client curator protos router shared trainer worker; do
    ours+=(--no-emit-package "multiverse-$package")
  done
  printf '%s\n' "${@:2}" setuptools >"$tools/$image.in"
  { echo "# Made by scripts/lock_images.sh"
    "$tools/bin/uv" pip compile "$tools/$image.in" --quiet --universal --python-version 3.11 \
      --constraint constraints.txt --generate-hashes --no-header --no-annotate "${ours[@]}"
  } >"deploy/docker/locks/$image.txt"
}
mkdir -p deploy/docker/locks
lock router ./protos ./shared './services/router[kubernetes,tracing]'
lock worker-llamacpp ./protos ./shared './services/worker[fetch,llamacpp,tier,tracing]'
lock curator ./shared './services/curator[gemini,openai,parquet,postgresql,service]'
lock trainer ./shared './trainer[lora]'
lock load ./protos ./shared ./services/worker './clients/python[grpc]' jinja2 locust matplotlib
