#!/bin/sh
cat
echo "app=$RELAY_APP token=$TOKEN" >&2
