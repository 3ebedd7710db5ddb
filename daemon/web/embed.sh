#!/bin/sh
# embed.sh FILE...: the dashboard's files as C for daemon/h_web.c, on stdout. Each is gzipped; @VERSION@ in a page becomes a hash
# over all of them, so that what a browser keeps for ever never belongs to another version.
set -eu
version=$(for f in "$@"; do printf '%s\n' "${f##*/}"; cat "$f"; done | sha256sum | cut -c1-16)

type_of() {
    case $1 in
    *.html) echo "text/html; charset=utf-8" ;;
    *.css) echo "text/css; charset=utf-8" ;;
    *.js) echo "text/javascript; charset=utf-8" ;;
    *.svg) echo "image/svg+xml" ;;
    *.txt) echo "text/plain; charset=utf-8" ;;
    *) echo "embed.sh: no media type for $1" >&2; exit 1 ;;
    esac
}
content() {
    case $1 in
    *.html) sed "s/@VERSION@/$version/g" "$1" ;;
    */uplot.js) cat "$1" && echo "export default uPlot;" ;;
    *) cat "$1" ;;
    esac
}

i=0
for f in "$@"; do
    echo "static const unsigned char web_$i[] = {"
    content "$f" | gzip -9n | od -An -v -tu1 | sed 's/ *\([0-9][0-9]*\)/\1,/g'
    echo "};"
    i=$((i + 1))
done
echo "#define WEB_VERSION \"$version\""
echo "static const struct web_file web_files[] = {"
i=0
for f in "$@"; do
    type=$(type_of "$f")
    echo "    {\"${f##*/}\", \"$type\", web_$i, sizeof web_$i, $(content "$f" | wc -c)},"
    i=$((i + 1))
done
echo "};"
