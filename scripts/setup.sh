#!/usr/bin/env bash
# Puts Multiverse into .venv: `setup.sh serve` what serving needs, `setup.sh all` also what
# tests and training need (torch). `setup.sh clients` puts what tests/e2e/clients need beside that
# into .venv-clients, which sees .venv; `setup.sh mooncake` Mooncake's client into .venv-mooncake.
# Quick when nothing has changed.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-serve}
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  { echo "Multiverse needs Python 3.11 or newer; set PYTHON to one" >&2; exit 1; }

packages=(-e protos -e shared -e 'services/worker[llamacpp,tier]' -e services/router)
packages+=(-e 'clients/python[grpc]' -e cli)
[ "$what" = all ] && packages+=(-e 'trainer[eval]' -r requirements-dev.txt
  -e 'services/curator[gemini,independence,openai,parquet,postgresql,service]')

if [ "$what" = clients ]; then
  "$0" all
  venv=.venv-clients
  packages=(-r requirements-clients.txt)
elif [ "$what" = mooncake ]; then
  "$0" all
  venv=.venv-mooncake
  packages=(-r requirements-mooncake.txt)
else
  venv=.venv
fi

stamp=$venv/.setup-$what
state=$(cat constraints.txt requirements-*.txt scripts/setup.sh ./*/pyproject.toml services/*/pyproject.toml clients/*/pyproject.toml | sha256sum)
if [ "$(cat "$stamp" 2>/dev/null || true)" = "$state" ]; then exit 0; fi

[ -x $venv/bin/python ] || "$python" -m venv $venv || {
  echo "can't make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }
site() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
[ $venv = .venv ] || echo "import site; site.addsitedir('$(site .venv)')" >"$(site $venv)/beside.pth"

# llama.cpp has no wheel on the registry: take one that was built here, or compile it.
if compgen -G '../shared/wheels/llama_cpp_python-*.whl' >/dev/null; then
  export PIP_FIND_LINKS="$(cd ../shared/wheels && pwd)${PIP_FIND_LINKS:+ $PIP_FIND_LINKS}"
elif ! command -v c++ >/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends g++ make
  else
    echo "llama.cpp has to be compiled: install a C++ compiler first" >&2; exit 1
  fi
else
  echo "llama.cpp is compiled now if it is not there yet: 10 to 15 minutes on two cores" >&2
fi
if [ "$what" = all ] && ! command -v curl >/dev/null; then  # an example that the tests run
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends curl
  else
    echo "the tests run examples/curl.sh: install curl first" >&2; exit 1
  fi
fi
if [ "$what" = all ] && ! command -v redis-server >/dev/null; then  # for tests of fleets and tiers
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends redis-server >/dev/null
  else
    echo "the tests run a Redis of their own: install redis-server first" >&2; exit 1
  fi
fi
if [ "$what" = all ] && [ ! -x /usr/sbin/nginx ] && ! command -v nginx >/dev/null; then  # tests put one before a router
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    # RUNLEVEL=1: installed, not started
    apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
      --no-install-recommends nginx-light >/dev/null ||
      { echo "nginx could not be installed (apt-get install nginx-light): the tests need it" >&2; exit 1; }
  else
    echo "the tests put nginx before a router: install nginx-light first" >&2; exit 1
  fi
fi
# Tests check the rules of deploy/observability with promtool, and let Prometheus scrape.
if [ "$what" = all ] && ! command -v promtool >/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus >/dev/null ||
      { echo "prometheus could not be installed: the tests need it and promtool" >&2; exit 1; }
  else
    echo "the tests run Prometheus and promtool: install them first" >&2; exit 1
  fi
fi
# Tests of the curator run Redis and PostgreSQL themselves, on free ports, and a browser.
missing=()
command -v redis-server >/dev/null || missing+=(redis-server)
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null ||
  missing+=(postgresql)
command -v chromium >/dev/null || missing+=(chromium)
if [ "$what" = all ] && [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    # RUNLEVEL=1: installed, not started
    apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
      --no-install-recommends "${missing[@]}" >/dev/null
  else
    echo "the tests run ${missing[*]}: install them first" >&2; exit 1
  fi
fi
echo "installing into $venv: a few minutes" >&2
export PIP_DISABLE_PIP_VERSION_CHECK=1
$venv/bin/pip install --quiet --constraint constraints.txt "${packages[@]}"
[ "$what" != all ] || $venv/bin/python scripts/deploy_tools.py helm
echo "$state" >"$stamp"
