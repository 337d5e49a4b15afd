def run(event):
    return event
