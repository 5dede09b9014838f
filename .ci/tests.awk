# Which lines of the crates' sources are tests: is_test[file, line], is_test_file(file). For a script that reads the sources first.
# Relies on rustfmt: an item's last line has the indentation of its first.

FNR == 1 { in_test = 0 }

# In a source: what follows #[cfg(test)] is a test, up to the end of the item.
pass != 2 && FILENAME ~ /\.rs$/ {
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
