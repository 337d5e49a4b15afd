run = 3
