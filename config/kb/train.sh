#!/bin/sh
# make kb: trains the starter knowledge of both families from the logs of the shared data folder and writes
# cpu.safetensors and gpu.safetensors beside this script. The logs are needed here only, never to run tcld.
# Left out: the tasks that the benchmarks hold out (splits/) and those that the demo asks about (demo.txt).
#   TCLD_SHARED  the folder (../shared)      LAB  build/lab      OUT  where to write (config/kb)
set -eu
data=${TCLD_SHARED:-../shared}/data lab=${LAB:-build/lab} out=${OUT:-config/kb}
[ -d "$data/own" ] || { echo "make kb: $data/own is not there; set TCLD_SHARED" >&2; exit 1; }
not() { for h in "$@"; do printf -- '--not %s/splits/%s.test.txt ' "$data" "$h"; done; }
own() { echo "$1:measured-by-the-project:$data/own/$1"; }
mit() { echo "$1:MIT:$data/public/$1"; }
case ${1:-all} in cpu|all)
    # shellcheck disable=SC2046
    "$lab" kb --out "$out/cpu.safetensors" ${THREADS:+--threads "$THREADS"} --not config/kb/demo.txt \
        $(not host-avx512 host-avx2 host-sse42 xeon-4t) \
        "$(own host-avx512)" "$(own host-avx2)" "$(own host-sse42)" "$(mit xeon-4t)" ;;
esac
case ${1:-all} in gpu|all)
    # shellcheck disable=SC2046
    "$lab" kb --out "$out/gpu.safetensors" --per-task 100 ${THREADS:+--threads "$THREADS"} \
        $(not v100 k80 mi50) "$(mit v100)" "$(mit k80)" "$(mit mi50)" ;;
esac
