#!/usr/bin/env bash
# Builds images for real with buildah, starts router and curator in them and asks for /health.
# Without a registry: the bases are made here of Debian packages. Needs root on Debian 12.
#   images.sh [router curator worker-llamacpp ...]
# One JSON line last: sizes in bytes, and whether each was healthy; status 1 when one was not.
set -euo pipefail
cd "$(dirname "$0")/.."
names=("$@")
[ ${#names[@]} -gt 0 ] || names=(router curator)
work=$PWD/build/images
mkdir -p "$work"

missing=()
for tool in buildah debootstrap curl; do command -v $tool >/dev/null || missing+=("$tool"); done
if [ ${#missing[@]} -gt 0 ]; then
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >&2
fi
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
buildah() { command buildah --root "$work/storage" --runroot "$work/run" "$@"; }

mirror=$(sed -nE 's/^deb (\[[^]]*\] )?([^ ]+) .*/\2/p; s/^URIs: *([^ ]+).*/\1/p' \
  /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null | head -1 || true)

base() { # NAME PACKAGES: an image with python, and little else
  if buildah inspect --type image "localhost/$1" >/dev/null 2>&1; then return; fi
  local root=$work/root-$1 container
  rm -rf "$root"
  debootstrap --variant=minbase --include="$2" bookworm "$root" "$mirror" >&2
  ln -sf python3 "$root/usr/bin/python"
  rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/archives/*.deb
  container=$(buildah from scratch)
  buildah copy --quiet "$container" "$root" / >/dev/null
  buildah commit --quiet "$container" "localhost/$1" >/dev/null
  buildah rm "$container" >/dev/null
  rm -rf "$root"
}
base multiverse-base python3,ca-certificates
base multiverse-build-base python3,python3-venv,ca-certificates

# Packages come from where this machine has them from, with the certificates that it trusts.
authorities=/etc/ssl/certs/ca-certificates.crt
pip=$(mktemp)
printf '[global]\ncert = %s\n' $authorities >"$pip"
python3 -m pip config list 2>/dev/null |
  sed -nE "s/^(global|:env:)\.(index-url|trusted-host)='(.*)'/\2 = \3/p" >>"$pip"
trap 'rm -f "$pip"' EXIT

results=() failed=0
for name in "${names[@]}"; do
  began=$SECONDS
  buildah build --quiet --layers=false --network=host --format=docker \
    --volume "$pip:/etc/pip.conf:ro" --volume $authorities:$authorities:ro \
    --build-arg BASE=localhost/multiverse-base --build-arg BUILD_BASE=localhost/multiverse-build-base \
    --file "deploy/docker/$name.Dockerfile" --tag "localhost/multiverse/$name" . >&2
  container=$(buildah from --pull-never "localhost/multiverse/$name")
  bytes=$(du -sb --one-file-system "$(buildah mount "$container")" | cut -f1)
  healthy=null
  case $name in
    router) port=18000 prefix=MULTIVERSE_ROUTER command=(python -m multiverse_router) ;;
    curator) port=18080 prefix=MULTIVERSE_CURATOR command=(python -m multiverse_curator api) ;;
    *) port='' ;;
  esac
  if [ -n "$port" ]; then
    buildah run --user 10001:10001 --env ${prefix}_PORT=$port --env ${prefix}_HOST=127.0.0.1 \
      "$container" -- "${command[@]}" >&2 &
    process=$!
    healthy=false
    for _ in $(seq 120); do
      if curl -fsS --noproxy '*' "http://127.0.0.1:$port/health" >/dev/null 2>&1; then healthy=true; break; fi
      kill -0 $process 2>/dev/null || break
      sleep 1
    done
    pkill -TERM -P $process 2>/dev/null || true
    kill $process 2>/dev/null || true
    wait $process 2>/dev/null || true
    [ $healthy = true ] || failed=1
  fi
  buildah umount "$container" >/dev/null
  buildah rm "$container" >/dev/null
  results+=("\"$name\": {\"healthy\": $healthy, \"bytes\": $bytes, \"seconds\": $((SECONDS - began))}")
done
joined=$(IFS=,; echo "${results[*]}")
printf '{"ok": %s, "images": {%s}}\n' "$([ $failed = 0 ] && echo true || echo false)" "$joined"
exit $failed
