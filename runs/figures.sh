#!/usr/bin/env bash
# Make the figures of experiments/evaluation.md from the data kit and the shipped model, on one GPU.
#
#   runs/figures.sh                     all parts; finished steps are skipped, killed ones resume
#   runs/figures.sh dev hops            these parts only
#   DRY_RUN=1 runs/figures.sh           print the commands only
#   KIT=... FIGURES=... MODEL=...       folders of the kit, the results and the model
#
# index       the model's indexes of the three corpora
# dev         the five dev files with the model's settings
# hops        the same in one, two and three hops
# order       the same, with passages ranked by hops
# names       HoVer and EX-FEVER with other boosts of mentioned passages
# focus       the five dev files with other N-hats, over the same indexes
# pipelines   the three files over the large corpus with the pipelines rerank and hybrid
# untrained   MaxSim of the untrained backbone, exact, over the five files and over 2,000 synthesised claims
# synthesis   retrievers trained on human questions only and on synthesised claims only, with the model's readers
# near        the five dev files in fewer hops and passages (not MuSiQue); those of the large corpus over passages near
#             their questions: half an hour on two cores
# speed       seconds of a claim by stage, milliseconds of a search in batches
#
# Retrievers start from $BACKBONE; $SYNTHETIC has the synthesised claims (experiments/synthesis.md has the command).
set -euo pipefail
cd "$(dirname "$0")/.."
. runs/steps.sh

KIT=${KIT:-runs/kit}
MODEL=${MODEL:-checkpoints/baleen-small}
FIGURES=${FIGURES:-runs/figures-$(basename "$MODEL")}
SYNTHETIC=${SYNTHETIC:-runs/synthetic.jsonl.gz}
BACKBONE=${BACKBONE:-bge-small-en-v1.5}
LARGE=(hover hotpotqa exfever)
FILES=("${LARGE[@]}" 2wiki musique)

corpus() { # corpus COLLECTION: its files
    if [ "$1" = wiki ]; then echo "$KIT"/wiki/part-*.jsonl.gz; else echo "$KIT/$1/corpus.jsonl.gz"; fi
}

collection() { # collection DATASET: the name of its corpus
    case $1 in 2wiki | musique) echo "$1" ;; *) echo wiki ;; esac
}

index() { # index MODEL FOLDER OPTION...: index each corpus, unless the index exists
    local model=$1 folder=$2 name
    shift 2
    for name in wiki 2wiki musique; do
        [ -e "$folder/$name/manifest.json" ] ||
            # shellcheck disable=SC2046 # a word for each file
            step "$BALEEN" index $(corpus "$name") --out "$folder/$name" --model "$model" "$@"
    done
}

evaluate() { # evaluate PART DATASET NAME OPTION...: evaluate a dev file into $FIGURES/PART/NAME.jsonl
    local part=$1 dataset=$2 name=$3
    shift 3
    evaluate_file "$part" "$dataset" "$KIT/$dataset/dev.json" "$name" "$@"
}

evaluate_file() { # evaluate_file PART DATASET FILE NAME OPTION...: and the printed JSON into NAME.json
    local part=$1 dataset=$2 file=$3 name=$4
    shift 4
    into "$FIGURES/$part/$name.json" "$BALEEN" eval "$dataset" "$file" "$@" --json --out "$FIGURES/$part/$name.jsonl"
}

into() { # into FILE COMMAND...: write its output atomically, unless the file exists; print its seconds to stderr
    local file=$1 start=$SECONDS
    shift
    [ -e "$file" ] && return
    if [ -n "$DRY_RUN" ]; then
        step "$@"
        return
    fi
    mkdir -p "$(dirname "$file")"
    step "$@" > "$file.part"
    mv "$file.part" "$file"
    echo "# $file: $((SECONDS - start)) s" >&2
}

shipped() { # shipped PART DATASET NAME OPTION...: evaluate the model over its own index
    local part=$1 dataset=$2 name=$3
    shift 3
    evaluate "$part" "$dataset" "$name" --model "$MODEL" --index "$FIGURES/index/$(collection "$dataset")" "$@"
}

part_index() { index "$MODEL" "$FIGURES/index"; }

part_dev() {
    local dataset
    for dataset in "${FILES[@]}"; do shipped dev "$dataset" "$dataset"; done
    shipped dev hotpotqa hotpotqa-10 --hops 2 -k 10
}

part_hops() {
    local dataset hops
    for dataset in "${FILES[@]}"; do
        for hops in 1 2 3; do shipped "hops-$hops" "$dataset" "$dataset" --hops "$hops"; done
    done
}

part_order() {
    local dataset
    for dataset in "${FILES[@]}"; do shipped order "$dataset" "$dataset" --ranked-by hops; done
}

part_names() {
    local dataset bonus
    for bonus in 0 1 2 4 16; do
        for dataset in hover exfever; do shipped "names-$bonus" "$dataset" "$dataset" --mention-boost "$bonus"; done
    done
}

part_focus() {
    local dataset model focus
    for focus in ${FOCUS:-8 12 16 24}; do
        model=$FIGURES/focused/$focus
        if [ ! -e "$model/config.json" ]; then
            step mkdir -p "$model"
            step cp -r "$MODEL/retriever" "$MODEL"/read* "$model"
            step sed -E -i "/query_focus/s/[0-9]+/$focus/" "$model/retriever/config.json"
            step cp "$MODEL/config.json" "$model"
        fi
        for dataset in "${FILES[@]}"; do
            evaluate "focus-$focus" "$dataset" "$dataset" --model "$model" --index "$FIGURES/index/$(collection "$dataset")"
        done
    done
}

part_pipelines() {
    local dataset pipeline
    for dataset in "${LARGE[@]}"; do
        for pipeline in rerank hybrid; do shipped "$pipeline" "$dataset" "$dataset" --pipeline "$pipeline"; done
    done
}

part_untrained() {
    local model=$FIGURES/untrained dataset
    local sample=() file
    for file in $(corpus wiki); do sample+=(--corpus "$file"); done
    [ -e "$model/config.json" ] || step "$BALEEN" init "$BACKBONE" "${sample[@]}" --out "$model"
    index "$model" "$FIGURES/untrained-index" --bits 16
    for dataset in "${FILES[@]}"; do
        evaluate untrained-maxsim "$dataset" "$dataset" --model "$model" \
            --index "$FIGURES/untrained-index/$(collection "$dataset")" --baseline colbert --exact
    done
    evaluate_file untrained-maxsim own "$SYNTHETIC" synthetic --model "$model" --index "$FIGURES/untrained-index/wiki" \
        --baseline colbert --exact --limit 2000
}

part_synthesis() {
    local name
    for name in ${SYNTHESIS:-human synthetic}; do synthesis "$name"; done
}

synthesis() { # synthesis NAME: train runs/synthesis-NAME.toml, and evaluate it with the model's readers and settings
    local name=$1 model=$FIGURES/synthesis/$1 dataset
    step "$BALEEN" train "runs/synthesis-$name.toml"
    step mkdir -p "$model"
    step cp -r "$MODEL/config.json" "$MODEL"/read* "runs/synthesis-$name/model/retriever" "$model"
    index "$model" "$FIGURES/synthesis-index/$name"
    for dataset in "${FILES[@]}"; do
        evaluate "synthesis-$name" "$dataset" "$dataset" --model "$model" \
            --index "$FIGURES/synthesis-index/$name/$(collection "$dataset")"
    done
}

part_near() {
    local folder=$FIGURES/near dataset hops=(--hops 3 -k 10)
    step mkdir -p "$folder"
    near claims --questions "hover:$KIT/hover/dev.json" "exfever:$KIT/exfever/dev.json" --sample 6000
    near corpus --questions "hotpotqa:$KIT/hotpotqa/dev.json" --sample 3000 --beside "$folder/claims.jsonl.gz"
    build_index "$MODEL" "$folder/corpus.jsonl.gz" "$FIGURES/index/near"
    for dataset in 2wiki musique; do build_index "$MODEL" "$(corpus "$dataset")" "$FIGURES/index/$dataset"; done
    for dataset in hover exfever; do
        evaluate near "$dataset" "$dataset" --model "$MODEL" --index "$FIGURES/index/near" "${hops[@]}"
    done
    evaluate near hotpotqa hotpotqa --model "$MODEL" --index "$FIGURES/index/near" --hops 2 -k 10
    shipped near 2wiki 2wiki "${hops[@]}"
    shipped near musique musique
}

near() { # near NAME OPTION...: make a corpus of passages near some questions
    local file=$FIGURES/near/$1.jsonl.gz
    shift
    # shellcheck disable=SC2046 # a word for each file
    [ -e "$file" ] || step "$PYTHON" benchmarks/near_corpus.py $(corpus wiki) "$@" --near 20 --out "$file"
}

part_speed() {
    into "$FIGURES/speed/verify.json" "$PYTHON" benchmarks/verify.py --model "$MODEL" --json
    into "$FIGURES/speed/batch.json" "$PYTHON" benchmarks/batch.py "$KIT/hover/dev.json" --model "$MODEL" \
        --index "$FIGURES/index/wiki" --exact 60 --json
}

parts=("$@")
[ $# -gt 0 ] || parts=(index dev hops order names focus pipelines untrained synthesis near speed)
for part in "${parts[@]}"; do
    declare -F "part_$part" > /dev/null || { echo "error: there is no part '$part'" >&2; exit 2; }
    "part_$part"
done
