def run(event, context):
    return event, context
