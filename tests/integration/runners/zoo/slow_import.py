import time

time.sleep(1)


def handler(event):
    print("at last")
