#!/usr/bin/env bash
# The HTTP API by hand: examples/curl.sh [URL]
set -euo pipefail
url=${1:-http://127.0.0.1:8000}

echo "# models"
curl -sS --fail-with-body "$url/v1/models"; echo

echo "# every event of every path, as it happens"
curl -sS --fail-with-body -N "$url/v1/generate" -H 'content-type: application/json' -d '{
  "prompt": "max a:7+5-3+2,b:4+9-2+5,?", "parallel": "auto"}'

echo "# the whole answer, as OpenAI'\''s clients see it"
curl -sS --fail-with-body "$url/v1/chat/completions" -H 'content-type: application/json' -d '{
  "messages": [{"role": "user", "content": "max a:7+5-3+2,b:4+9-2+5,?"}], "temperature": 0}'; echo

echo "# and as Anthropic'\''s do"
curl -sS --fail-with-body "$url/v1/messages" -H 'content-type: application/json' -d '{
  "model": "multiverse-tiny", "max_tokens": 500, "temperature": 0,
  "messages": [{"role": "user", "content": "max a:7+5-3+2,b:4+9-2+5,?"}]}'; echo
