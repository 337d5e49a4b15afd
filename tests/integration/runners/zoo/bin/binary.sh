#!/bin/sh
printf '\377\376\000 \n'
