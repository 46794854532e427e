#!/usr/bin/env bash
# Reproduce the paper's rows for HoVer from the official downloads.  docs/reproduce.md has requirements and times.
#
#   runs/hover.sh                   all steps; finished ones are skipped, killed ones resume
#   DRY_RUN=1 runs/hover.sh         print the commands that are left
#   ABLATION=1 runs/hover.sh        also train and evaluate the paper's ablations
set -euo pipefail
cd "$(dirname "$0")/.."
. runs/steps.sh

DATA=runs/hover-data
MODEL=runs/hover/model
INDEX=$DATA/hover.index
DEV=$DATA/hover_dev_release_v1.1.json
RELEASE=https://raw.githubusercontent.com/hover-nlp/hover/main/data/hover

evaluate() { # evaluate NAME OPTION...: four hops of 25 passages, the paper's 100
    local name=$1
    shift
    step "$BALEEN" eval hover "$DEV" --index "$INDEX" --model "$MODEL" --hops 4 -k 25 --missing drop "$@" \
        --out "$DATA/$name.jsonl" --submission "$DATA/$name.submission.json"
    rows+=("$name=$DATA/$name.jsonl")
}

download "$RELEASE/hover_train_release_v1.1.json" "$DATA/hover_train_release_v1.1.json"
download "$RELEASE/hover_dev_release_v1.1.json" "$DEV"
wikipedia "$DATA/wiki"
step "$BALEEN" train runs/hover.toml
build_index "$MODEL" "$DATA/wiki" "$INDEX" --bits 2

rows=()
evaluate condense --pipeline condense
evaluate rerank --pipeline rerank
evaluate hybrid --pipeline hybrid
step "$BALEEN" table "${rows[@]}" --metric retrieval@100 --metric passage_em --metric passage_f1 \
    --metric sentence_em --metric sentence_f1 --metric label_accuracy --metric hover_score
[ -z "${ABLATION:-}" ] || step "$PYTHON" experiments/ablation.py runs/hover.toml
