#!/bin/sh
# Runs the blocks marked "sh" of the guides, each guide from nothing: a folder of its own with the source's tests/ in it,
# a daemon on a unix socket there. A block that fails, or a daemon that does not end well, fails the check.
set -eu
cd "$(dirname "$0")/../.."
top=$PWD
build=$(cd "${BUILD:-build}" && pwd)
command -v python3 >/dev/null || { echo "check-docs: python3 is not installed: the guides are not run"; exit 0; }
promised() {
    echo '  activated (model ' # the first training gives a model that answers
    case $1 in
    operating) echo '403 Role not sufficient' ;;
    measurement-fleet) echo '2 accepted, 0 duplicates, 0 rejected' ;; # measured by hand
    esac
}
for guide in tuning-with-tvm measurement-fleet operating metaschedule; do
    dir=$(mktemp -d)
    ln -s "$top/tests" "$dir/tests"
    {
        echo 'trap '"'"'kill $(jobs -p) 2>/dev/null || true; wait'"'"' EXIT'
        awk '/^```sh$/ { on = 1; next } /^```$/ { on = 0 } on' "docs/$guide.md"
    } >"$dir/run.sh"
    if ! (
        cd "$dir"
        export PATH="$build:$PATH" PYTHONPATH="$top/clients/tvm" PYTHONDONTWRITEBYTECODE=1 HOME="$dir" XDG_STATE_HOME= XDG_CONFIG_HOME=
        export TCLD_LISTEN="unix:$dir/tcld.sock" TCLD_URL="unix:$dir/tcld.sock" TCLD_STATE_DIR="$dir/var"
        timeout 600 bash -eu run.sh >out 2>&1
    ); then
        echo "check-docs: docs/$guide.md does not run ($dir):" >&2
        tail -20 "$dir/out" >&2
        exit 1
    fi
    while IFS= read -r line; do # what the guide promises
        grep -qF -- "$line" "$dir/out" || {
            echo "check-docs: docs/$guide.md runs, but nothing says \"$line\" ($dir/out)" >&2
            exit 1
        }
    done <<END
$(promised "$guide")
END
    echo "check-docs: docs/$guide.md runs"
    rm -rf "$dir"
done
