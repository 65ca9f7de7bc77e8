# Common parts of the flush tests: those of the fault tests, with flush and fetch on. See ../faults/lib.sh.
#
#   $1 of every test    the folder that holds native_app; scr_index is in ../bin of it

export H5SCR_CLUSTER_TIMEOUT=${H5SCR_CLUSTER_TIMEOUT:-150} # a busy machine is no hang
source "$(dirname "${BASH_SOURCE[0]}")/../faults/lib.sh"
scr_index=$(cd "$bin/../bin" && pwd)/scr_index

# A new case, with a flush of every checkpoint and none of the settings of the case before.
start() { # text
  unset SCR_USE_CONTAINERS SCR_CONTAINER_SIZE SCR_CONTAINER_PARITY SCR_FLUSH_ASYNC SCR_FLUSH_ASYNC_BW \
    SCR_FLUSH_ASYNC_PERCENT SCR_FLUSH_TYPE SCR_FLUSH_WIDTH SCR_CURRENT SCR_HALT_EXIT SCR_FETCH_BYPASS SCR_GLOBAL_RESTART
  export SCR_FLUSH=1 SCR_FETCH=1
  begin "$1"
}

# How the files lie in the prefix directory: "files", or "containers" (20 kB each, one parity).
layout() { # name
  unset SCR_USE_CONTAINERS
  [[ $1 == files ]] || export SCR_USE_CONTAINERS=1 SCR_CONTAINER_SIZE=20000 SCR_CONTAINER_PARITY=1
}

# All caches are lost.
wipe_all() { wipe 0 1 2 3; }

temporaries() { find "$SCR_PREFIX" -name '*.tmp' -o -name '.*.tmp.*'; }

expect_no_temporaries() {
  local left
  left=$(temporaries)
  check "$([[ -z $left ]]; echo $?)" "temporary files remain: $left"
}

# Every byte of every dataset in the index is right, and there are this many ("any": any number).
expect_index() { # number
  local text
  text=$("$scr_index" -p "$SCR_PREFIX" --verify-all 2>&1)
  check $? "the index names a damaged dataset: $text"
  [[ $1 == any ]] && return
  local count
  count=$(grep -c 'every byte is right' <<<"$text")
  check "$((count == $1 ? 0 : 1))" "the index names $count datasets instead of $1: $text"
}

index() { # argument...; $out and $status as of `app`
  out=$("$scr_index" -p "$SCR_PREFIX" "$@" 2>&1)
  status=$?
}

expect_current() { # directory below .scr
  local target
  target=$(readlink "$SCR_PREFIX/scr.current")
  check "$([[ $target == ".scr/$1" ]]; echo $?)" "scr.current points to '$target' instead of '.scr/$1'"
}

# Flips a bit of a byte (negative offset: from the end) of a file in the prefix directory.
flip_in_prefix() { # file offset
  local file=$SCR_PREFIX/$1 offset=$2 size byte
  size=$(stat -c %s "$file") || { not_ok "there is no '$file'"; return; }
  ((offset < 0)) && offset=$((size + offset))
  byte=$(od -An -tu1 -j "$offset" -N 1 "$file")
  printf "\\x$(printf %02x $((byte ^ 64)))" | dd of="$file" bs=1 seek="$offset" conv=notrunc status=none
}
