#!/usr/bin/env bash
# Lints the .proto files and remakes the stubs, with the oldest protobuf that we support.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=build/proto-tools
if [ ! -x "$tools/bin/buf" ]; then
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check grpcio-tools==1.76.0 buf-bin==1.75.0
fi
"$tools/bin/buf" lint protos
cd protos
files=$(find multiverse_protos -name '*.proto')
# shellcheck disable=SC2086
"../$tools/bin/python" -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. $files
