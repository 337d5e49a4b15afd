#!/bin/sh
# Reads how many megabytes to print.
head -c "$(tr -dc 0-9)M" /dev/zero | tr '\0' 'y'
echo
