# The table of `compare`, from its lines: who operation bytes best median. Who is `ours` or library/setting, each behind a run of ours.

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

{
    figure = $2 SUBSEP $3
    if (!(figure in known)) { known[figure]; figures[++rows] = figure }
    split($1, who, "/")
    least(best, figure SUBSEP who[1], $4 + 0)
}

$1 == "ours" { before[figure] = $4 + 0; next }

{
    if (!(who[1] in column)) { column[who[1]]; libraries[++columns] = who[1] }
    if (!($1 in setting)) { setting[$1]; settings[++last] = $1 }
    ratio[figure, $1, ++runs[figure, $1]] = $4 / before[figure]
}

END {
    printf "| %-13s | %9s | %9s |", "operation", "bytes", "ours us"
    for (i = 1; i <= columns; i++) printf " %9s |", libraries[i]
    printf " %9s | %9s |\n|---------------|----------:|----------:|", "best/ours", "in turns"
    for (i = 1; i <= columns + 2; i++) printf "----------:|"
    print ""
    for (row = 1; row <= rows; row++) {
        figure = figures[row]
        split(figure, part, SUBSEP)
        ours = best[figure, "ours"]
        printf "| %-13s | %9d | %9.3f |", part[1], part[2], ours
        split("", fastest)
        for (i = 1; i <= columns; i++) {
            at = figure SUBSEP libraries[i]
            if (at in best) { printf " %9.3f |", best[at]; least(fastest, "best", best[at] / ours) } else printf " %9s |", "-"
        }
        for (i = 1; i <= last; i++) {
            at = figure SUBSEP settings[i]
            if (at in runs) least(fastest, "turns", median(ratio, at, runs[at]))
        }
        printf " %9.2f | %9.2f |\n", fastest["best"], fastest["turns"]
    }
}
