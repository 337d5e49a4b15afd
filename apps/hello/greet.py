"""Says hello once a minute, and to whoever an event names."""


def say_hello(event):
    print(f"hello, it is {event.get('scheduled_at', 'no special time')}")


def on_greeting(event):
    print(f"hello {event.get('name', 'world')}")
