#!/bin/sh
# check.sh TCLD WORK: the dashboard in headless Chromium (tests/web/*.mjs). Its packages are kept in WORK. Skips with a
# word where Chromium, node (18 or newer) or the packages cannot be had.
set -eu
tcld=$1
work=$2
here=$(cd "$(dirname "$0")" && pwd)
skip() {
    echo "check-web: $*: the dashboard was not run in a browser"
    exit 0
}
for c in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
    [ -n "$c" ] && browser=$(command -v "$c") && break
done
[ -n "${browser:-}" ] || skip "chromium is not installed"
command -v node >/dev/null || skip "node is not installed"
command -v npm >/dev/null || skip "npm is not installed"
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 18 ] || skip "node is older than 18"

mkdir -p "$work"
if ! cmp -s "$here/package-lock.json" "$work/installed.json"; then
    cp "$here/package.json" "$here/package-lock.json" "$work/"
    (cd "$work" && npm ci --no-audit --no-fund --ignore-scripts >npm.log 2>&1) || skip "npm cannot fetch playwright-core and axe-core ($work/npm.log)"
    cp "$here/package-lock.json" "$work/installed.json"
fi
TCLD=$tcld WORK=$(cd "$work" && pwd) CHROMIUM=$browser exec node --test --test-reporter=spec "$here/test_dashboard.mjs"
