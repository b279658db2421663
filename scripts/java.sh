#!/usr/bin/env bash
# Run a command with a Java that Spark takes (17 or newer), found or, where the system allows it, installed.
#
#   java.sh find          print the home of a Java 17+, or fail
#   java.sh advice        print the commands that install one
#   java.sh run CMD …     run CMD with JAVA_HOME set; without Java too, since CMD knows what it can do then
#   java.sh demo CMD …    the same, but without Java run `CMD … --runner local` and end with the advice
#   java.sh try CMD …     the same, but without Java do nothing
#
# DATAFLOW_MODEL_INSTALL_JAVA=no keeps it from installing anything; DATAFLOW_MODEL_JAVA_PLACES names the folders to look
# in (patterns, parted by spaces) after JAVA_HOME, the PATH and the conda environment, instead of the common ones.
set -eu

needed=17
common_places="/usr/lib/jvm/* /usr/local/lib/jvm/* /opt/java/* /opt/jdk*
    /Library/Java/JavaVirtualMachines/*/Contents/Home /opt/homebrew/opt/openjdk* /usr/local/opt/openjdk*
    ${HOME:-/nonexistent}/.sdkman/candidates/java/* ${HOME:-/nonexistent}/.jdks/*"

# Print the home of the Java at $1, if it is new enough.
home_if_new_enough() {
    local settings major home
    [ -x "$1" ] || return 1
    settings=$("$1" -XshowSettings:properties -version 2>&1) || return 1
    major=$(sed -n 's/^ *java\.specification\.version = \([0-9]*\).*/\1/p' <<<"$settings")
    home=$(sed -n 's/^ *java\.home = //p' <<<"$settings")
    if [ "${major:-0}" -ge "$needed" ] && [ -n "$home" ]; then echo "$home"; else return 1; fi
}

find_java() {
    local place
    if home_if_new_enough "${JAVA_HOME:-/nonexistent}/bin/java"; then return; fi
    if home_if_new_enough "$(command -v java || true)"; then return; fi
    # Unquoted: patterns.
    for place in "${CONDA_PREFIX:-/nonexistent}"{,/lib/jvm} ${DATAFLOW_MODEL_JAVA_PLACES-$common_places}; do
        if home_if_new_enough "$place/bin/java"; then return; fi
    done
    return 1
}

# Debian's and Ubuntu's releases have one or both of these.
apt_install() {
    local package
    "$@" apt-get update -qq || return 1
    for package in openjdk-21-jre-headless openjdk-17-jre-headless; do
        if "$@" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package"; then return; fi
    done
    return 1
}

install_java() {
    if [ "${DATAFLOW_MODEL_INSTALL_JAVA:-yes}" = no ]; then return 1; fi
    if command -v apt-get >/dev/null; then
        if [ "$(id -u)" = 0 ]; then
            echo "No Java $needed+ found: installing one with apt-get" >&2
            apt_install >&2
        elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
            echo "No Java $needed+ found: installing one with sudo apt-get" >&2
            apt_install sudo -n >&2
        else
            return 1
        fi
    elif command -v brew >/dev/null; then
        echo "No Java $needed+ found: installing one with brew" >&2
        brew install openjdk@17 >&2
    else
        return 1
    fi
}

advice() {
    cat <<'TEXT'
Spark needs Java 17 or newer, and none was found. Get one, then run the same command again:

  Debian, Ubuntu   sudo apt-get update && sudo apt-get install -y openjdk-17-jre-headless || sudo apt-get install -y openjdk-21-jre-headless
  Fedora           sudo dnf install -y java-21-openjdk-headless
  Arch             sudo pacman -S --needed jre21-openjdk-headless
  macOS            brew install openjdk@17
  Windows          in WSL (wsl --install), as for Ubuntu
  conda, anywhere  conda install -c conda-forge openjdk=17

A Java elsewhere is found through JAVA_HOME.
TEXT
}

mode=${1:-}
if [ $# -gt 0 ]; then shift; fi
case $mode in
find) find_java ;;
advice) advice ;;
run | demo | try)
    if home=$(find_java) || { install_java && home=$(find_java); }; then
        export JAVA_HOME=$home
        exec "$@"
    elif [ "$mode" = try ]; then
        exit 0
    elif [ "$mode" = run ]; then
        # On stderr and first, so that the command's own last line stays the last.
        advice >&2
        exec "$@"
    else
        echo "No Java $needed+ found: running the part that needs none." >&2
        status=0
        "$@" --runner local || status=$?
        echo
        advice
        exit "$status"
    fi
    ;;
*)
    sed -n '2,/^set -eu/{/^#/s/^# \{0,1\}//p;}' "$0" >&2
    exit 2
    ;;
esac
