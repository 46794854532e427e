# Functions of the scripts here and in benchmarks/; source it from the repository's root.
#
#   DRY_RUN=1       print the commands that are left, and run none
#   BALEEN=...      the command (default: that of .venv, or of the path)
#   PYTHON=...      the interpreter for scripts (default: likewise)

BALEEN=${BALEEN:-$([ -x .venv/bin/baleen ] && echo .venv/bin/baleen || echo baleen)}
PYTHON=${PYTHON:-$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)}
DRY_RUN=${DRY_RUN:-}
WIKI=${WIKI:-runs/wiki-2017}
ABSTRACTS=enwiki-20171001-pages-meta-current-withlinks-abstracts
ABSTRACTS_MD5=01edf64cd120ecc03a2745352779514c

step() { # step COMMAND...: print a command and run it
    printf '+ %s\n' "$*" >&2
    [ -n "$DRY_RUN" ] || "$@"
}

download() { # download ADDRESS FILE: resume a partial download, and rename it when complete
    [ -e "$2" ] && return
    step mkdir -p "$(dirname "$2")"
    step curl --fail --location --retry 5 --continue-at - --output "$2.part" "$1"
    step mv "$2.part" "$2"
}

wikipedia() { # wikipedia LINK: unpack HotPotQA's introductions of October 2017 into $WIKI, and link to them
    local archive="$WIKI.tar.bz2"
    if [ ! -e "$WIKI" ]; then
        download "https://nlp.stanford.edu/projects/hotpotqa/$ABSTRACTS.tar.bz2" "$archive"
        step check_md5 "$archive" "$ABSTRACTS_MD5"
        step mkdir -p "$WIKI.part"
        step tar --extract --bzip2 --strip-components 1 --directory "$WIKI.part" --file "$archive"
        step mv "$WIKI.part" "$WIKI"
    fi
    [ -e "$1" ] || step ln -s "$(realpath -m --relative-to "$(dirname "$1")" "$WIKI")" "$1"
}

check_md5() { # check_md5 FILE SUM
    local found
    found=$(md5sum "$1" | cut -d ' ' -f 1)
    if [ "$found" != "$2" ]; then
        echo "error: $1 has the md5 $found, expected $2; remove it and start again" >&2
        return 1
    fi
}

build_index() { # build_index MODEL CORPUS FOLDER OPTION...: build an index, unless it exists
    local model=$1 corpus=$2 folder=$3
    shift 3
    [ -e "$folder/manifest.json" ] || step "$BALEEN" index "$corpus" --out "$folder" --model "$model" "$@"
}
