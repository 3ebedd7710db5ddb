#!/bin/sh
# The Python client of TVM, without TVM: check.sh TCLD. Without python3 says so and does nothing.
set -eu
export TCLD_STARTER_KNOWLEDGE=off # hardware knows what a test teaches it
command -v python3 >/dev/null || { echo "check-tvm: python3 is not installed: the Python client not tested"; exit 0; }
TCLD=$(realpath "$1")
export TCLD PYTHONDONTWRITEBYTECODE=1
cd "$(dirname "$0")"
exec python3 -W error -m unittest -q test_model test_metaschedule test_commands test_agent
