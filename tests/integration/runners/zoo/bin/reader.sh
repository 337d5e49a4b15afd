#!/bin/sh
wc -c | tr -d ' '
