#!/usr/bin/env bash
# Run the benchmarks that come with the code.  Each command is printed first and can be run by itself.
#
#   make benchmark                      BM25 and the checkpoint in checkpoints/: 15 minutes on two cores with bfloat16,
#                                       else up to an hour
#   make benchmark UNTRAINED=1          also MaxSim of the untrained default: encodes 15,000 passages, 33M parameters
#   DRY_RUN=1 benchmarks/run.sh         print the commands only
#
# Indexes and results are kept in benchmarks/cache: finished steps are skipped, and a killed run resumes.
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
