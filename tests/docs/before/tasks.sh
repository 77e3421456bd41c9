carmad --background
printf 'one\ntwo\n' | gzip > data.gz
# Tasks up to the numbers that the page names: 40 to 51 are an array that waits, 42 among it.
carma submit --array 1-39 --wrap true
carma submit --hold --array 0-11 train.sh
carma submit --hold -J sweep --dependency afterok:41 train.sh
