def run(event:
