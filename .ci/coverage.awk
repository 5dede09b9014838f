# Counts the lines of an lcov report by crate, without those of tests. Reads the sources, then the report; needs tests.awk.

/^SF:/ {
  file = substr($0, 4)
  name = substr(file, length(root) + 1)
  split(name, parts, "/")
  crate = parts[2]
  counts = index(file, root) == 1 && parts[3] == "src" && !is_test_file(file)
}

/^DA:/ && counts {
  split(substr($0, 4), line, ",")
  if ((file, line[1]) in is_test) next
  lines[crate]++
  if (line[2] > 0) covered[crate]++
  else if (uncovered) print name ":" line[1]
}

function row(name, lines, covered) {
  printf "| %s | %d | %d | %.1f %% |\n", name, lines, lines - covered, 100 * covered / lines
}

END {
  if (uncovered) exit
  print "| crate | lines | uncovered | covered |"
  print "| --- | ---: | ---: | ---: |"
  count = split(crates, order, " ")
  for (at = 1; at <= count; at++) {
    row("`" order[at] "`", lines[order[at]], covered[order[at]])
    all += lines[order[at]]; all_covered += covered[order[at]]
  }
  row("all", all, all_covered)
}
