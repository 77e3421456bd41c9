carmad --background
