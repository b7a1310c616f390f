#!/bin/sh
# Java 17 or newer for Spark: there already, or by the system's packages where this user may. Says so
# in one line where neither is the case, and is never the reason for a failure.
found=$("${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1)
[ "${found:-0}" -ge 17 ] && exit 0

may=
if [ "$(id -u)" != 0 ]; then
    may="sudo -n"
    $may true 2>/dev/null || may=no
fi
if [ "$may" != no ]; then
    echo "installing Java 17"
    if command -v apt-get >/dev/null; then
        for package in openjdk-17-jre-headless openjdk-21-jre-headless; do
            $may apt-get install -y -q $package >/dev/null 2>&1 && exit 0
            $may apt-get update -q >/dev/null 2>&1
            $may apt-get install -y -q $package >/dev/null 2>&1 && exit 0
        done
    elif command -v dnf >/dev/null; then
        $may dnf install -y -q java-17-openjdk-headless >/dev/null 2>&1 && exit 0
    elif command -v apk >/dev/null; then
        $may apk add -q openjdk17-jre-headless >/dev/null 2>&1 && exit 0
    fi
fi
echo "Java 17 could not be installed: install it (Debian: apt install openjdk-17-jre-headless) for pipelines"
