#!/usr/bin/env bash
# HoVer from the official downloads to the paper's rows: docs/reproduce.md says what it needs and how long it takes.
#
#   runs/hover.sh                   every step that is not done yet; a step that was killed goes on where it stood
#   DRY_RUN=1 runs/hover.sh         print what is left to do
#   ABLATION=1 runs/hover.sh        the paper's ablations too, each of which is trained anew
set -euo pipefail
cd "$(dirname "$0")/.."
. runs/steps.sh

DATA=runs/hover-data
MODEL=runs/hover/model
INDEX=$DATA/hover.index
DEV=$DATA/hover_dev_release_v1.1.json
RELEASE=https://raw.githubusercontent.com/hover-nlp/hover/main/data/hover

evaluate() { # evaluate NAME OPTION...: 25 passages in each of four hops, which are the paper's 100
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
