def handler(event)
    pass
