cd ~/carma
carmad --background
