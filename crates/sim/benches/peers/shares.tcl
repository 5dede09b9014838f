# 15 satellite and 15 terrestrial SACK transfers and UDP over a 2 Mbit/s bottleneck for 6,000 s, in ns-2, without tracing: tests/data/ns2/shared_bottleneck.tcl says how.
#   ns shares.tcl [v=sack]
# Prints the data packets sent.
set argv [concat {v=sack seed=1} $argv]
set quiet 1
source [file join [file dirname [info script]] .. .. tests data ns2 shared_bottleneck.tcl]
