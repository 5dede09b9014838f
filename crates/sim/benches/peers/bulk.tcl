# Bulk SACK flows over one bottleneck, in ns-2, without tracing.
#   ns bulk.tcl flows=1 mbps=50 delay=275 window=2363 queue=5000 seconds=100 access=100
# All senders at one host, all receivers at another: host - access Mbit/s 1 ms - R1 - bottleneck - R2 - access Mbit/s 1 ms - host. 1,500-byte packets, an ACK for each; starts spread over the first second when there is more than one flow.
# Prints the data packets sent.
array set A {flows 1 mbps 50 delay 275 window 2363 queue 5000 seconds 100 access 100}
foreach kv $argv {
    set i [string first = $kv]
    set A([string range $kv 0 [expr {$i - 1}]]) [string range $kv [expr {$i + 1}] end]
}
set ns [new Simulator]
set rng [new RNG]
$rng seed 1
foreach node {senders r1 r2 receivers} {set $node [$ns node]}
$ns duplex-link $senders $r1 $A(access)Mb 1ms DropTail
$ns duplex-link $r1 $r2 $A(mbps)Mb $A(delay)ms DropTail
$ns duplex-link $r2 $receivers $A(access)Mb 1ms DropTail
foreach {x y} [list $senders $r1 $r2 $receivers] {
    $ns queue-limit $x $y 100000
    $ns queue-limit $y $x 100000
}
$ns queue-limit $r1 $r2 $A(queue)
$ns queue-limit $r2 $r1 100000
set tcps {}
for {set i 0} {$i < $A(flows)} {incr i} {
    set tcp [new Agent/TCP/Sack1]
    set sink [new Agent/TCPSink/Sack1]
    $tcp set packetSize_ 1460
    $tcp set window_ $A(window)
    $ns attach-agent $senders $tcp
    $ns attach-agent $receivers $sink
    $ns connect $tcp $sink
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp
    $ns at [expr {$A(flows) > 1 ? [$rng uniform 0 1] : 0.0}] "$ftp start"
    lappend tcps $tcp
}
proc finish {} {
    global tcps
    set sent 0
    foreach tcp $tcps {set sent [expr {$sent + [$tcp set ndatapack_]}]}
    puts $sent
    exit 0
}
$ns at $A(seconds) finish
$ns run
