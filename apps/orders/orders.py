"""Reacts to changes in the orders table, and looks for orders that nobody touched."""

import os


def on_created(event):
    order = event["record"]
    print(f"order {order.get('id')}: reserving stock in {os.environ['WAREHOUSE']}")


def on_large(event):
    order = event["record"]
    print(f"order {order.get('id')} of {order['total']}: asking for a review")


def on_cancelled(event):
    order = event["record"]
    print(f"order {order.get('id')}: releasing stock, cancelled at {order['cancelled_at']}")


def find_stale(event):
    print(f"looking for orders untouched before {event['scheduled_at']}")
