#!/usr/bin/env bash
# Installs what some tests start themselves: PostgreSQL and Chromium. Needs root and apt; elsewhere
# it does nothing, and those tests skip with their reason. Nothing is started here.
set -uo pipefail
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then exit 0; fi

missing=()
compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null || command -v initdb >/dev/null || missing+=(postgresql)
command -v chromium >/dev/null || missing+=(chromium)
if [ "${#missing[@]}" -eq 0 ]; then exit 0; fi

export DEBIAN_FRONTEND=noninteractive
# Debian would make and start a server of its own; the tests bring theirs.
if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
  mkdir -p /etc/postgresql-common
  echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
fi
apt-get update -qq || true
for package in "${missing[@]}"; do
  apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 || echo "could not install $package; its tests skip"
done
