A=(1 2 "3
echo ${A[@]} ${B:-${C}} $((1 + (2)) "unclosed
