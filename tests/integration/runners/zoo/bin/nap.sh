#!/bin/sh
exec sleep 0.3
