"""Closes a month and books payments. Both are keyed, so that a repeated run changes nothing."""

import os
from datetime import date, datetime, timedelta


def close_month(event):
    month = closed_month(event["scheduled_at"])
    print(f"closing {month:%Y-%m} in {os.environ.get('CURRENCY', 'EUR')}")


def closed_month(scheduled_at: str) -> date:
    """The first day of the month before the one that has just begun."""
    due = datetime.fromisoformat(scheduled_at).date()
    return (due.replace(day=1) - timedelta(days=1)).replace(day=1)


def on_payment(event):
    payment = event.get("payment_id", "unknown")
    print(f"booking payment {payment} of {event['amount']} {os.environ.get('CURRENCY', 'EUR')}")
