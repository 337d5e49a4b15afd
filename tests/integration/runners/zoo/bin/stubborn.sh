#!/bin/sh
trap "" TERM
echo here
sleep 300 & sleep 300
sleep 300
