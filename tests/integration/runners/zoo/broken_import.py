import nowhere_to_be_found


def handler(event):
    pass
