#!/usr/bin/env bash
# The gRPC API by hand: examples/grpcurl.sh [HOST:PORT]; grpcurl learns the messages by reflection.
set -euo pipefail
address=${1:-127.0.0.1:8001}
service=multiverse.generate.v1.GenerateService

echo "# is it well?"
grpcurl -plaintext "$address" grpc.health.v1.Health/Check

echo "# what can be called"
grpcurl -plaintext "$address" describe "$service"

echo "# models"
grpcurl -plaintext "$address" "$service/ListModels"

echo "# every event of every path, as it happens"
grpcurl -plaintext -d '{"prompt": "max a:7+5-3+2,b:4+9-2+5,?", "parallel": "PARALLEL_AUTO"}' \
  "$address" "$service/Generate"
