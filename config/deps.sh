#!/bin/sh
# Find what the build needs and install what is missing with apt, when that is possible (root or sudo); else print the line to type.
# Called by `make deps`; PKGS (pkg-config names) and CC come from the Makefile.
set -eu
pc=${PKG_CONFIG:-pkg-config}

deb_of() { # pkg-config name -> Debian package
    case $1 in
    libmicrohttpd) echo libmicrohttpd-dev ;;
    gnutls) echo libgnutls28-dev ;;
    jansson) echo libjansson-dev ;;
    sqlite3) echo libsqlite3-dev ;;
    libuv) echo libuv1-dev ;;
    zlib) echo zlib1g-dev ;;
    libzstd) echo libzstd-dev ;;
    nettle) echo nettle-dev ;;
    openblas) echo libopenblas-dev ;;
    inih) echo libinih-dev ;;
    libcurl) echo libcurl4-openssl-dev ;;
    check) echo check ;;
    *) echo "$1" ;;
    esac
}

missing=
cc=${CC:-gcc}
command -v "${cc%% *}" >/dev/null || # CC may be "ccache gcc"
    missing="$missing gcc libc6-dev"
command -v "$pc" >/dev/null || missing="$missing pkg-config"
for p in $PKGS; do
    command -v "$pc" >/dev/null && "$pc" --exists "$p" && continue
    missing="$missing $(deb_of "$p")"
done
# tools of `make lint`; the build itself does without them
for t in clang-format cppcheck mandoc; do
    [ "${LINT_TOOLS:-}" ] || break
    command -v $t >/dev/null || missing="$missing $t"
done
[ "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "deps: missing:$missing (Debian names); install them with your system's package manager" >&2
    exit 1
fi
sudo=
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo=sudo
    else
        echo "deps: missing packages; type:  sudo apt-get install -y --no-install-recommends$missing" >&2
        exit 1
    fi
fi
echo "deps: installing$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# apt answers with an error when its lists are absent or old: refresh them once
export DEBIAN_FRONTEND=noninteractive
apt="$sudo apt-get -q -y -o DPkg::Lock::Timeout=120"
# shellcheck disable=SC2086
if ! $apt install --no-install-recommends $missing >"$log" 2>&1; then
    if ! { $apt update && $apt install --no-install-recommends $missing; } >"$log" 2>&1; then
        tail -5 "$log" >&2
        echo "deps: apt-get failed; type:  apt-get update && apt-get install -y$missing" >&2
        exit 1
    fi
fi
