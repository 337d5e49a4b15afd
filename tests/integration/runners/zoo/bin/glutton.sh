#!/bin/sh
# One line without an end, which tail has to keep.
head -c 10G /dev/zero | tail -n 1 >/dev/null
