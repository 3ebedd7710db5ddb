#!/bin/sh
# make kb: trains the starter knowledge of both families from the logs of the shared data folder and writes
# cpu.safetensors and gpu.safetensors beside this script. The logs are needed here only, never to run tcld.
# Left out: the tasks that the benchmarks hold out (splits/) and those that the demo asks about (demo.txt).
#   TCLD_SHARED  the folder (../shared)      LAB  build/lab      OUT  where to write (config/kb)
#   PER_TASK     programs of each GPU task (40)    META  rounds of meta-learning (500, 200)    THREADS  (all cores)
set -eu
data=${TCLD_SHARED:-../shared}/data lab=${LAB:-build/lab} out=${OUT:-config/kb}
[ -d "$data/own" ] || { echo "make kb: $data/own is not there; set TCLD_SHARED" >&2; exit 1; }
not() { for h in "$@"; do printf -- '--not %s/splits/%s.test.txt ' "$data" "$h"; done; }
own() { echo "$1:measured by the tcld project:$data/own/$1"; }
roller() { echo "$1:MIT, microsoft/nnfusion roller artifacts by way of lac-dcc/DropletSearch:$data/public/$1"; }
threads=${THREADS:+--threads $THREADS}
# shellcheck disable=SC2046,SC2086
case ${1:-all} in cpu|all)
    "$lab" kb --out "$out/cpu.safetensors" $threads --meta "${META:-500}" --not config/kb/demo.txt \
        $(not host-avx512 host-avx2 host-sse42 xeon-4t) \
        "xeon-4t:MIT, Jaspann/transfer-tuning:$data/public/xeon-4t" \
        "$(own host-avx512)" "$(own host-avx2)" "$(own host-sse42)" ;;
esac
# shellcheck disable=SC2046,SC2086
case ${1:-all} in gpu|all)
    "$lab" kb --out "$out/gpu.safetensors" $threads --meta "${META:-200}" --per-task "${PER_TASK:-40}" $(not v100 k80 mi50) \
        "$(roller v100)" "$(roller k80)" "$(roller mi50)" ;;
esac
