#!/bin/sh
# Every figure of docs/ that is measured on logs, by the commands that made them: tables and plots go to OUT.
#   sh lab/figures.sh DATA OUT [PAGE...]
# DATA: a folder with public/, own/ and splits/. PAGE: model, comparison, search, ablations, sampler, distillation (all).
# Evaluations and cells that are in OUT already are not made again; networks of the comparison are. LAB=build/lab,
# THREADS (all cores). About a day on two cores for all of them.
set -eu
[ $# -ge 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2; }
data=$1 out=$2 lab=${LAB:-build/lab} threads=${THREADS:+--threads $THREADS}
shift 2
[ $# -gt 0 ] || set -- model comparison search ablations sampler distillation
mkdir -p "$out"

logs() { printf -- '--logs %s/public/%s --test %s/splits/%s.test.txt %s' "$data" "$1" "$data" "$1" "$threads"; }
# NAME OPTION...: lab eval, means of three seeds
eval_() { name=$1; shift; [ -s "$out/$name.txt" ] || { "$lab" eval "$@" --seeds 3 --quiet >"$out/$name.part" && mv "$out/$name.part" "$out/$name.txt"; }; }
# NAME HARDWARE OPTION...: lab compare, three seeds
compare() { name=$1 hw=$2; shift 2; "$lab" compare $(logs "$hw") --name "$name" --seeds 3 --peer-set tlp.bf16=1 --out "$out/$name" "$@" >"$out/$name.txt"; }
once=:rows:rounds=1
# NAME HARDWARE OPTION...: lab rdu; one folder of cells for each hardware, table and plot by name
rdu() {
    name=$1 hw=$2 cells=$out/sampler-$2
    shift 2
    "$lab" rdu $(logs "$hw") --out "$cells" --quiet "$@" >"$out/$name.txt"
    cp "$cells/rdu-pairwise.svg" "$out/$name.svg"
}

for page; do
    # shellcheck disable=SC2046,SC2086
    case $page in
    model)
        eval_ model-all $(logs x86-24t) --epochs 24
        eval_ model-100 $(logs x86-24t) --epochs 24 --per-task 100
        eval_ model-100-mean $(logs x86-24t) --epochs 24 --per-task 100 --labels mean
        eval_ model-known --logs "$data/public/x86-24t" $threads --known --epochs 24 ;;
    comparison)
        compare x86-24t x86-24t --epochs 24 --peer-set tlp.epochs=3 --peer-set mlp.epochs=5
        for hw in a100-80:200 v100:100 k80:100 mi50:100; do
            compare ${hw%:*} ${hw%:*} --per-task ${hw#*:} --epochs 20 --peer-set tlp.epochs=10 --peer-set mlp.epochs=15
        done ;;
    search)
        for within in 0.05 0.02; do
            "$lab" search $(logs x86-24t) --epochs 24 --seeds 3 --within $within --models "$out/search-weights" --out "$out/search-$within"
        done ;;
    ablations)
        "$lab" ablate $(logs x86-24t) --per-task 100 --epochs 15 --seeds 3 --out "$out/ablations" ;;
    sampler)
        rdu sampler-a100 a100-80 --methods rdu$once,random --seeds 10 --steps 600
        rdu sampler-x86 x86-24t --methods rdu$once,random --seeds 3 --steps 800
        rdu sampler-a100-rounds a100-80 --methods rdu,random --seeds 20 --steps 600 --budgets 5,10
        rdu sampler-x86-rounds x86-24t --methods rdu,random,rdu$once --seeds 5 --steps 800 --budgets 5,10
        rdu sampler-x86-ten x86-24t --methods rdu,random --seeds 10 --steps 800 --budgets 10
        rdu sampler-a100-10 a100-80 --methods rdu$once,random,coreset$once,representative$once,rdu,uncertainty --seeds 5 --steps 600 --budgets 10 --epochs 8
        rdu sampler-x86-10 x86-24t --methods rdu$once,random,coreset$once,representative$once,rdu,uncertainty --seeds 3 --steps 800 --budgets 10 --epochs 8 ;;
    distillation)
        "$lab" ckd --data "$data" --budgets 2,5,10,20 --seeds 3 $threads --out "$out/distillation"
        "$lab" ckd --data "$data" --transfers 'a100-80>v100>k80>mi50,x86-24t>host-avx512>host-avx2>host-sse42' --budgets 10 --seeds 3 \
            --methods 'zero-shot,scratch,fine-tune,ckd,ckd without EWC' $threads --out "$out/sequences"
        for t in 'a100-80>a100-40,a100-40>a100-80,v100>k80,k80>v100,v100+k80>mi50,mi50>v100,x86-24t>xeon-4t 5' 'host-avx512>host-avx2>host-sse42 4'; do
            "$lab" ckd --data "$data" --transfers "${t% *}" --folds "${t#* }" --budgets 10 --seeds 3 $threads \
                --methods 'zero-shot,scratch,cold start,fine-tune,multi-task,ckd,ckd without EWC,all' --out "$out/distillation-every-${t#* }"
        done
        "$lab" ckd --data "$data" --transfers 'a100-80>a100-40,v100>k80' --budgets 10 --seeds 3 --ablate $threads --out "$out/distillation-ablation" ;;
    *) echo "figures: $page is no page" >&2; exit 2 ;;
    esac
done
