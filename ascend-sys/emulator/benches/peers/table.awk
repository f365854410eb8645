# The table of `compare`, from its lines: who operation bytes best median. Who is `ours` or
# library/setting, each behind a run of ours. A library in `beside` (separated by commas) has a
# column behind the ratios and no part in them.

function least(table, key, value) {
    if (!(key in table) || value < table[key]) table[key] = value
}

# The median of the `count` numbers table[key, 1], ...
function median(table, key, count,    i, j, swap) {
    for (i = 2; i <= count; i++)
        for (j = i; j > 1 && table[key, j] < table[key, j - 1]; j--) {
            swap = table[key, j]; table[key, j] = table[key, j - 1]; table[key, j - 1] = swap
        }
    return count % 2 ? table[key, (count + 1) / 2] : (table[key, count / 2] + table[key, count / 2 + 1]) / 2
}

# A cell with the number table[key], with these digits, or with a dash.
function cell(table, key, digits) {
    if (key in table) printf " %9." digits "f |", table[key]; else printf " %9s |", "-"
}

function heads(list, count,    i) {
    for (i = 1; i <= count; i++) printf " %9s |", list[i]
}

BEGIN {
    split(beside, names, ",")
    for (i in names) aside[names[i]]
}

{
    figure = $2 SUBSEP $3
    if (!(figure in known)) { known[figure]; figures[++rows] = figure }
    split($1, who, "/")
    least(best, figure SUBSEP who[1], $4 + 0)
}

$1 == "ours" { before[figure] = $4 + 0; next }

!(who[1] in column) {
    column[who[1]]
    if (who[1] in aside) others[++more] = who[1]; else libraries[++columns] = who[1]
}

!(who[1] in aside) {
    if (!($1 in setting)) { setting[$1]; settings[++last] = $1 }
    ratio[figure, $1, ++runs[figure, $1]] = $4 / before[figure]
}

END {
    printf "| %-17s | %9s | %9s |", "operation", "bytes", "ours us"
    heads(libraries, columns)
    printf " %9s | %9s |", "best/ours", "in turns"
    heads(others, more)
    printf "\n|-------------------|----------:|----------:|"
    for (i = 1; i <= columns + 2 + more; i++) printf "----------:|"
    print ""
    for (row = 1; row <= rows; row++) {
        figure = figures[row]
        split(figure, part, SUBSEP)
        ours = best[figure, "ours"]
        printf "| %-17s | %9d | %9.3f |", part[1], part[2], ours
        split("", fastest)
        for (i = 1; i <= columns; i++) {
            at = figure SUBSEP libraries[i]
            cell(best, at, 3)
            if (at in best) least(fastest, "best", best[at] / ours)
        }
        for (i = 1; i <= last; i++) {
            at = figure SUBSEP settings[i]
            if (at in runs) least(fastest, "turns", median(ratio, at, runs[at]))
        }
        cell(fastest, "best", 2)
        cell(fastest, "turns", 2)
        for (i = 1; i <= more; i++) cell(best, figure SUBSEP others[i], 3)
        print ""
    }
}
