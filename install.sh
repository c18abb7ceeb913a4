#!/bin/sh
# Installs sprof and cargo-sprof on Linux and macOS: sh install.sh [--to DIR]. DIR is ~/.local/bin by default.
# SPROF_RELEASES is the URL of the folder that has the release's files: sha256sums and sprof-VERSION-TARGET.tar.gz.
# The programs in DIR are replaced when the download is complete, has the right checksum and runs here, and not before.
set -eu

say() { printf 'install.sh: %s\n' "$*" >&2; }
fail() { say "$*" && exit 1; }

# Runs a command that ends when this shell gets a signal: a shell waits for other commands first.
run() {
    child=new # until the number is known
    "$@" & child=$!
    wait "$child" || { child='' && return 1; }
    child=''
}

clean() {
    [ "$child" != new ] || child=${!:-}
    [ -z "$child" ] || { kill "$child" && wait "$child"; } 2>/dev/null || :
    rm -rf "$tmp"
}

# Writes the file of this name into $tmp.
download() {
    if command -v curl >/dev/null; then
        run curl -fsSL -o "$tmp/$1" "$releases/$1"
    elif command -v wget >/dev/null; then
        run wget -q -t 2 -O "$tmp/$1" "$releases/$1"
    else
        fail "cannot download: install curl or wget, and run this again"
    fi || fail "cannot download $releases/$1 into $to: check the connection and the free space, and run this again"
}

find_target() {
    machine=$(uname -s)/$(uname -m)
    [ "$(sysctl -n hw.optional.arm64 2>/dev/null)" != 1 ] || machine=Darwin/arm64 # Rosetta says x86_64.
    case $machine in
    Linux/x86_64) target=x86_64-unknown-linux-musl ;;
    Linux/aarch64) target=aarch64-unknown-linux-musl ;;
    Darwin/x86_64) target=x86_64-apple-darwin ;;
    Darwin/arm64) target=aarch64-apple-darwin ;;
    *) fail "no release runs on $machine: build sprof with Rust, as its README says" ;;
    esac
}

main() {
    case $#:${1:-} in
    0: | 2:--to) to=${2:-${HOME:?}/.local/bin} releases=${SPROF_RELEASES:-} child='' ;;
    *) say "unknown arguments: $*; run sh install.sh, or sh install.sh --to DIR" && exit 2 ;;
    esac
    [ -n "$releases" ] || fail "set SPROF_RELEASES to the URL of the folder that has the release's files"
    find_target
    mkdir -p "$to" && to=$(cd "$to" && pwd) && tmp=$(mktemp -d "$to/.sprof-install.XXXXXX") ||
        fail "cannot write into $to: choose another folder with --to DIR"
    trap clean EXIT
    trap 'exit 130' INT
    trap 'exit 143' HUP TERM
    download sha256sums
    line=$(grep "  sprof-.*-$target\.tar\.gz\$" "$tmp/sha256sums") || fail "$releases/sha256sums has no file for $target"
    download "${line#*  }"
    cd "$tmp" && echo "$line" >line
    # With -c, shasum takes the algorithm from the length of the sum.
    sum=$(command -v sha256sum || command -v shasum) || fail "cannot check the download: install sha256sum or shasum"
    "$sum" -c line >/dev/null 2>&1 || fail "${line#*  } has another checksum than sha256sums says: nothing was installed"
    run tar -xzf "${line#*  }" --strip-components=1 || fail "cannot unpack ${line#*  } in $to: check the free space"
    version=$(./sprof --version) || fail "the sprof of ${line#*  } does not run here: nothing was installed"
    (trap '' HUP INT TERM && mv -f sprof cargo-sprof "$to") || fail "cannot replace the programs in $to"
    say "installed $version and cargo-sprof in $to"
    found=$(command -v sprof) || found=''
    if [ ! "$found" -ef "$to/sprof" ]; then
        say "put this line into your shell's startup file: export PATH=\"$to:\$PATH\""
        [ -z "$found" ] || say "until then \`sprof\` runs $found"
        [ "$found" != /usr/bin/sprof ] || say "$found is another program, of glibc (on Debian in libc-devtools)"
    fi
    "$to/sprof" doctor | tail -n 1
}

# The shell reads all of the script first, so a part of it does nothing.
main "$@"
