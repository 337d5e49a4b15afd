"""Sends the digest."""


def run(event):
    return event
