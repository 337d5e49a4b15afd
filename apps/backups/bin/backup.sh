#!/bin/sh
# Writes one archive per due instant; a repeated run replaces its own archive and no other.
set -eu
umask 077

stamp=$(printf '%s' "${RELAY_SCHEDULED_AT:-manual}" | tr -d ':-')
mkdir -p "$TARGET_DIR"
part="$TARGET_DIR/.$stamp.$$.tar.gz"
trap 'rm -f "$part"' EXIT
tar -czf "$part" -C "$SOURCE_DIR" .
mv "$part" "$TARGET_DIR/data-$stamp.tar.gz"
echo "wrote $TARGET_DIR/data-$stamp.tar.gz"
