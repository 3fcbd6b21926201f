#!/usr/bin/env bash
# Puts SGLang and what its tests need into .venv-sglang, on a machine without a GPU: about 4
# minutes and 3.3 GB. On a GPU machine install sglang the ordinary way; see docs/sglang.md.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
venv=.venv-sglang

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  { echo "Multiverse needs Python 3.11 or newer; set PYTHON to one" >&2; exit 1; }

stamp=$venv/.setup
state=$(cat requirements-sglang.txt constraints-sglang.txt scripts/setup_sglang.sh tests/sglang_cpu/sgl_kernel.py \
  protos/pyproject.toml shared/pyproject.toml services/*/pyproject.toml | sha256sum)
if [ "$(cat "$stamp" 2>/dev/null || true)" = "$state" ]; then exit 0; fi

echo "installing SGLang into $venv: about 4 minutes" >&2
[ -x $venv/bin/python ] || "$python" -m venv $venv || {
  echo "can't make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }
export PIP_DISABLE_PIP_VERSION_CHECK=1
$venv/bin/pip install --quiet --constraint constraints-sglang.txt --requirement requirements-sglang.txt
# Their metadata asks for the CUDA packages, which a CPU does not need.
$venv/bin/pip install --quiet --no-deps sglang==0.5.23 torchvision==0.28.0
$venv/bin/pip install --quiet --no-deps -e protos -e shared -e services/worker -e services/router
$venv/bin/python scripts/prepare_sglang_cpu.py
echo "$state" >"$stamp"
