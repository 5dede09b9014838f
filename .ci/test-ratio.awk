# Counts lines of tests and of code by crate. Reads the sources, then, after pass=2, the sources again and the files of tests; needs
# tests.awk.

pass == 2 && FNR == 1 {
  split(substr(FILENAME, length(root) + 1), parts, "/")
  crate = parts[2]
  all_tests = parts[3] == "tests" || is_test_file(FILENAME)
}

pass == 2 && !/^ *(\/\/.*)?$/ {
  if (all_tests || (FILENAME, FNR) in is_test) tests[crate]++
  else code[crate]++
}

END {
  print "| crate | code | tests | tests per line of code |"
  print "| --- | ---: | ---: | ---: |"
  count = split(crates, order, " ")
  for (at = 1; at <= count; at++) {
    name = order[at]
    printf "| `%s` | %d | %d | %.2f |\n", name, code[name], tests[name], tests[name] / code[name]
  }
}
