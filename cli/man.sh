#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A manual page from the help of the command or of a verb: man.sh HELP2MAN POLTER "polter VERB" VERSION FILE
set -eu
help2man=$1 polter=$2 words=$3 version=$4 file=$5
# help2man asks for a program; the verb's help is its --help.
program=$(mktemp -d)/$(printf %s "$words" | tr ' ' -)
trap 'rm -rf "$(dirname "$program")"' EXIT
printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$polter" "${words#polter}" >"$program"
chmod +x "$program"
"$help2man" --no-info --section=1 --version-string="$version" --manual="Poltergeist" \
  --name="$("$program" --help | sed -n 1p)" --output="$file" "$program"
