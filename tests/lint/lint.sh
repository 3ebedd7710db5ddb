#!/bin/sh
# Format, include direction, banned functions, file sizes, static analysis. Tools that are not installed are named and skipped.
set -eu
cd "$(dirname "$0")/../.."
fail=0
bad() {
    echo "lint: $*" >&2
    fail=1
}
# tracked and new sources alike, without git too (a release tarball)
sources=$(find proto model store sampler ckd daemon lab clients tests -name '*.[ch]' | sort)

sh tests/lint/layers.sh || fail=1

# shellcheck disable=SC2086
hits=$(grep -nwE '(strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|atof|alloca|system|popen|tmpnam|mktemp|rand|srand)\(' \
    $(printf '%s\n' $sources | grep -v '^tests/') /dev/null || true)
[ -z "$hits" ] || bad "banned functions:
$hits"

for f in $sources; do
    n=$(wc -l <"$f")
    [ "$n" -le 650 ] || bad "$f has $n lines; split it (limit 650)"
done

# shellcheck disable=SC2086
if command -v clang-format >/dev/null; then
    out=$(clang-format --dry-run -Werror $sources 2>&1 | grep -oE '^[^:]+\.[ch]:[0-9]+' | sort -u || true)
    [ -z "$out" ] || bad "not formatted (clang-format -i):
$out"
else
    echo "lint: clang-format is not installed: format not checked"
fi

if command -v cppcheck >/dev/null; then
    mkdir -p build/cppcheck
    cppcheck --quiet --std=c11 --language=c --enable=warning,performance,portability --inline-suppr --error-exitcode=1 -j2 \
        --cppcheck-build-dir=build/cppcheck --suppressions-list=tests/lint/cppcheck.txt -I. -DTM_SIMD=portable \
        proto model store sampler ckd daemon lab clients || bad "cppcheck"
else
    echo "lint: cppcheck is not installed: static analysis not run"
fi

if command -v mandoc >/dev/null; then
    for m in docs/*.[158]; do
        [ -e "$m" ] || continue
        mandoc -T lint -W warning "$m" || bad "$m: mandoc"
    done
else
    echo "lint: mandoc is not installed: manual pages not checked"
fi
if command -v systemd-analyze >/dev/null; then
    systemd-analyze security --offline=true --threshold=15 --no-pager systemd/tcld.service >/dev/null 2>&1 ||
        bad "systemd/tcld.service: exposure above 1.5 (systemd-analyze security --offline=true systemd/tcld.service)"
else
    echo "lint: systemd-analyze is not installed: the unit not checked"
fi
[ $fail = 0 ] && echo "lint: clean"
exit $fail
