#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Searches all states of session.pml with SPIN. Each variant must be free of errors, and each seeded error must be found.
# Needs spin and a C compiler.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# search OPTION... prints the number of errors (SPIN stops at the first one) and of states.
search() {
  "${CC:-cc}" -O2 "$1" -o pan pan.c
  ./pan -m100000 "${@:2}" >pan.log
  sed -nE 's/.*errors: ([0-9]+).*/\1/p; s/^ *([0-9]+) states, stored.*/\1/p' pan.log | paste -sd ' '
}

# errors MODEL DEFINES... searches for a wrong state, and then for a run without end: there is none, as the faults are
# bounded. It prints what search prints.
errors() {
  local model=$1 result
  shift
  cp "$model" "$work/model.pml"
  (
    cd "$work"
    spin -a "$@" model.pml >spin.log || { cat spin.log >&2; exit 1; }
    result=$(search -DSAFETY)
    case $result in
    0*) search -DNP -l ;;
    *) echo "$result" ;;
    esac
  )
}

failed=0

# expect WANT TITLE MODEL DEFINES... checks the number of errors.
expect() {
  local want=$1 title=$2 found states
  read -r found states < <(errors "${@:3}")
  if [ "$found" = "$want" ]; then
    echo "ok: $title: $states states"
  else
    echo "FAILED: $title: got $found errors in $states states, want $want" >&2
    failed=1
  fi
}

expect 0 "WatchList" session.pml -DWATCHLIST
expect 0 "list and watch" session.pml
expect 1 "list and watch, with the case that is not promised" session.pml -DHIDDEN

# seeded TITLE OLD NEW DEFINES... replaces a text, and expects an error.
seeded() {
  local model title=$1 old=$2 new=$3
  model=$(<session.pml)
  if [ "${model//"$old"/"$new"}" = "$model" ]; then
    echo "FAILED: $title: session.pml has no text \"$old\"" >&2
    failed=1
    return
  fi
  echo "${model//"$old"/"$new"}" >"$work/seeded.pml"
  expect 1 "seeded error: $title" "$work/seeded.pml" "${@:4}"
}

seeded "a new owner gets a read that began before it came" "readFor = askedFor" "readFor = owners" -DWATCHLIST
seeded "a new owner does not cause a read" "consistent = consistent || owners > readFor" "skip" -DWATCHLIST
seeded "an event that is not newer is applied" "v > seen ->" "true ->" -DWATCHLIST
seeded "a read below the version seen is dropped" "hold(c, p);
		seen = v;" "if
		:: v >= seen -> hold(c, p); seen = v
		:: else
		fi;" -DWATCHLIST
seeded "a refused version is asked for again" "!found -> consistent = true" "!found -> skip" -DWATCHLIST
seeded "a silent stream is not verified" "SILENT ->" "false ->"
seeded "events before the watch are not sent" "objectVersion > from -> events" "false -> events"
exit $failed
