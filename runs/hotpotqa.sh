#!/usr/bin/env bash
# Reproduce the paper's rows for HotPotQA (fullwiki) from the official downloads.  docs/reproduce.md has requirements
# and times.
#
#   runs/hotpotqa.sh                all steps; finished ones are skipped, killed ones resume
#   DRY_RUN=1 runs/hotpotqa.sh      print the commands that are left
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
evaluate twenty 10 --pipeline condense      # 10 passages per hop, for the paper's P-R@20 and Ans-R@20
evaluate condense 10,40 --pipeline condense # the paper's depths, for P-EM and answers
step "$BALEEN" table "${rows[@]}" --metric passage_em --metric passage_recall@20 --metric answer_recall@20 \
    --metric answer_em --metric answer_f1 --metric sentence_em --metric sentence_f1 --metric joint_f1
