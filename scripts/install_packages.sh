#!/usr/bin/env bash
# Sees to it that the Debian packages of some purposes are installed: those of packages.txt.
#
#   scripts/install_packages.sh build data
#
# As root it installs what is missing; otherwise it prints the one line that would, and fails. When
# nothing is missing it asks no server and needs no root.
set -euo pipefail

list="$(dirname "${BASH_SOURCE[0]}")/packages.txt"
if [ $# -eq 0 ]; then
  echo "usage: ${BASH_SOURCE[0]} PURPOSE...   (purposes: build data peers python tests)" >&2
  exit 2
fi

architecture=$(dpkg --print-architecture)
missing=()
for purpose in "$@"; do
  packages=$(awk -v purpose="$purpose" -v architecture="$architecture" \
    '$1 == purpose && (NF < 3 || $3 == architecture) { print $2 }' "$list")
  if [ -z "$packages" ]; then
    echo "${BASH_SOURCE[0]}: no packages are listed for '$purpose' in $list" >&2
    exit 2
  fi
  for package in $packages; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
  done
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
  echo "These Debian packages are missing; this installs them:" >&2
  echo "sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
echo "Installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
# Standard output belongs to what runs after this, such as `demo --json`.
apt-get update -qq >&2
apt-get install -qq -y --no-install-recommends "${missing[@]}" >&2
