#!/usr/bin/env bash
# Puts what docker-compose.yml mounts into secrets/: a client's API key and its line, the password
# of Redis and the settings that have it in them, the secret of the prefix-cache tier, and
# certificates for router and worker, signed by an authority that signs for nobody else.
# Files that are there stay. Needs openssl. `make_secrets.sh FOLDER` writes elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-secrets}
mkdir -p "$folder"
chmod 700 "$folder"  # the files in it must be readable by the users of the containers
cd "$folder"
umask 022

random() { openssl rand -base64 32 | tr '+/' '-_' | tr -d '=\n'; }

if [ ! -e client_key ]; then
  key="mv-$(random)"
  printf 'compose sha256:%s\n' "$(printf %s "$key" | openssl dgst -sha256 -r | cut -d' ' -f1)" >api_keys
  printf %s "$key" >client_key
fi

[ -e redis_password ] || random >redis_password
[ -e multiverse_worker_tier_secret ] || random >multiverse_worker_tier_secret
printf 'requirepass %s\n' "$(cat redis_password)" >redis.conf
urls=(multiverse_router_redis_url multiverse_curator_redis multiverse_worker_tier_url)
for database in "${!urls[@]}"; do
  printf 'redis://:%s@redis:6379/%s' "$(cat redis_password)" "$database" >"${urls[database]}"
done

curve=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
if [ ! -e ca.crt ]; then
  openssl req -x509 "${curve[@]}" -keyout ca.key -out ca.crt -days 3650 -subj "/CN=multiverse" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign 2>/dev/null
  chmod 600 ca.key
fi
for side in router worker; do
  [ ! -e $side.crt ] || continue
  name=$([ $side = worker ] && echo workers.multiverse || echo router.multiverse)
  openssl req "${curve[@]}" -keyout $side.key -subj "/CN=$name" 2>/dev/null |
    openssl x509 -req -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -out $side.crt \
      -extfile <(printf 'subjectAltName=DNS:%s\nbasicConstraints=CA:FALSE\n' "$name") 2>/dev/null
  chmod 644 $side.key
done
echo "secrets are in $folder; clients send the key in client_key"
