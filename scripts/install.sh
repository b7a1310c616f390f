#!/bin/sh
# install.sh PYTHON [OPTION...] PACKAGE...: pip install, in which one line says what is being fetched.
python=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ "$python" -m pip install --disable-pip-version-check --progress-bar off "$@" 2>&1; echo "$?" >"$log.code"; } |
    tee "$log" |
    sed -un -e 's/^ *Downloading \(.*\)/  fetching \1/p' -e 's/^ *Building wheel.* for \([^ ]*\).*started/  building \1/p' -e 's/^Installing collected packages: .*/  installing/p' |
    if [ -t 1 ]; then
        while IFS= read -r line; do printf '\r\033[K%.100s' "$line"; done
        printf '\r\033[K'
    else
        cat
    fi
code=$(cat "$log.code")
rm -f "$log.code"
[ "$code" = 0 ] || { grep -v "^ *\(Collecting\|Using cached\|Downloading\|Requirement already\)" "$log" | tail -20 >&2; exit "$code"; }
