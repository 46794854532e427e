#!/usr/bin/env bash
# The benchmarks that come with the code: each command is printed before it runs, and can be run by itself.
#
#   make benchmark                      BM25, and the checkpoint in checkpoints/, which takes a quarter of an hour on two cores that compute in bfloat16, else up to an hour
#   make benchmark UNTRAINED=1          MaxSim of the untrained default too: 15,000 passages go through a 33M encoder
#   DRY_RUN=1 benchmarks/run.sh         print the commands and do nothing
#
# Indexes and results by question lie in benchmarks/cache; what is there is not made again, and a run that was killed is
# taken up.
set -euo pipefail
cd "$(dirname "$0")/.."

. runs/steps.sh

CACHE=${CACHE:-benchmarks/cache}
CHECKPOINT=${CHECKPOINT:-baleen-small}
UNTRAINED=${UNTRAINED:-}
MAXSIM=checkpoints/flipr-untrained
METRICS=(--metric mean@5 --metric mean@2 --metric all@5 --metric all@20)

evaluate() { # evaluate DATASET NAME OPTION...: into $CACHE/DATASET-NAME.jsonl
    local dataset=$1 name=$2
    shift 2
    step "$BALEEN" eval "$dataset" "benchmarks/data/$dataset/dev.json.gz" "$@" --samples 0 \
        --out "$CACHE/$dataset-$name.jsonl" > /dev/null
    rows+=("$name=$CACHE/$dataset-$name.jsonl")
}

mkdir -p "$CACHE"
for dataset in 2wiki musique; do
    rows=() corpus=benchmarks/data/$dataset/corpus.jsonl.gz
    evaluate "$dataset" bm25 --corpus "$corpus" --baseline bm25
    if [ -n "$UNTRAINED" ]; then
        [ -e "$MAXSIM/config.json" ] || step "$BALEEN" init --out "$MAXSIM"
        build_index "$MAXSIM" "$corpus" "$CACHE/$dataset-untrained.index" --bits 4
        evaluate "$dataset" untrained-maxsim --index "$CACHE/$dataset-untrained.index" --model "$MAXSIM" \
            --baseline colbert --exact
    fi
    if [ -e "checkpoints/$CHECKPOINT/config.json" ]; then
        build_index "$CHECKPOINT" "$corpus" "$CACHE/$dataset-$CHECKPOINT.index" --bits 4
        evaluate "$dataset" "$CHECKPOINT" --index "$CACHE/$dataset-$CHECKPOINT.index" --model "$CHECKPOINT"
    fi
    step "$BALEEN" table "${rows[@]}" "${METRICS[@]}"
done
