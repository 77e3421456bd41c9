carmad --background
printf 'one\ntwo\n' | gzip > data.gz
# Submits tasks up to the numbers that the page mentions: 40 to 51 are a waiting array that includes 42.
carma submit --array 1-39 --wrap true
carma submit --hold --array 0-11 train.sh
carma submit --hold -J sweep --dependency afterok:41 train.sh
