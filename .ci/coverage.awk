# Counts the lines of an lcov report by crate, without those of tests. Reads the sources, then the report.
# Relies on rustfmt: an item's last line has the indentation of its first.

FNR == 1 { in_test = 0 }

# In a source: what follows #[cfg(test)] is a test, up to the end of the item.
FILENAME ~ /\.rs$/ {
  indent = match($0, /[^ ]/) - 1
  if (!in_test && $0 ~ /^ *#\[cfg\(test\)\]/) { in_test = 1; outer = indent; from = FNR; path = "" }
  if (in_test) {
    is_test[FILENAME, FNR] = 1
    if ($0 ~ /#\[path = /) { split($0, quoted, "\""); path = quoted[2] }
    if (indent == outer && $0 ~ /mod [a-z0-9_]+;$/) tests_file(FILENAME, $NF, path)
    if (indent == outer && FNR > from && $0 ~ /(^ *}|;)$/) in_test = 0
  }
  next
}

# A test module in a file of its own.
function tests_file(parent, name, path,    folder) {
  sub(/;$/, "", name)
  folder = parent
  if (path != "" || parent ~ /\/(mod|lib)\.rs$/) sub(/[^\/]*$/, "", folder)
  else sub(/\.rs$/, "/", folder)
  test_files[folder (path != "" ? path : name ".rs")] = 1
  if (path == "") test_folders[folder name "/"] = 1
}

function is_test_file(file,    folder) {
  if (file in test_files) return 1
  for (folder in test_folders) if (index(file, folder) == 1) return 1
  return 0
}

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
