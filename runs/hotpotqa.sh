#!/usr/bin/env bash
# HotPotQA (fullwiki) from the official downloads to the paper's rows: docs/reproduce.md says what it needs and how
# long it takes.
#
#   runs/hotpotqa.sh                every step that is not done yet; a step that was killed goes on where it stood
#   DRY_RUN=1 runs/hotpotqa.sh      print what is left to do
set -euo pipefail
cd "$(dirname "$0")/.."
. runs/steps.sh

DATA=runs/hotpotqa-data
MODEL=runs/hotpotqa/model
INDEX=$DATA/hotpotqa.index
DEV=$DATA/hotpot_dev_fullwiki_v1.json
RELEASE=http://curtis.ml.cmu.edu/datasets/hotpot

evaluate() { # evaluate NAME DEPTHS OPTION...: two hops
    local name=$1 depths=$2
    shift 2
    step "$BALEEN" eval hotpotqa "$DEV" --index "$INDEX" --model "$MODEL" --hops 2 -k "$depths" --missing drop "$@" \
        --out "$DATA/$name.jsonl" --submission "$DATA/$name.submission.json"
    rows+=("$name=$DATA/$name.jsonl")
}

download "$RELEASE/hotpot_train_v1.1.json" "$DATA/hotpot_train_v1.1.json"
download "$RELEASE/hotpot_dev_fullwiki_v1.json" "$DEV"
wikipedia "$DATA/wiki"
step "$BALEEN" train runs/hotpotqa.toml
build_index "$MODEL" "$DATA/wiki" "$INDEX" --bits 2

rows=()
evaluate twenty 10 --pipeline condense      # ten passages of each hop: the paper's P-R@20 and Ans-R@20
evaluate condense 10,40 --pipeline condense # the depths of the paper: P-EM, and what is read
step "$BALEEN" table "${rows[@]}" --metric passage_em --metric passage_recall@20 --metric answer_recall@20 \
    --metric answer_em --metric answer_f1 --metric sentence_em --metric sentence_f1 --metric joint_f1
