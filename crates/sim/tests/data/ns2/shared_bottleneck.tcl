# 15 satellite file transfers from 0 s, 15 terrestrial ones from 2,000 s and a constant-rate UDP flow from 4,000 s share a 2 Mbit/s bottleneck until 6,000 s, in ns-2.
#   ns shared_bottleneck.tcl v=newreno seed=1 [win=20 mss=960 q=50 satd=260 udp=1 stag=0.1 quiet=0]
# Topology: A and B - 20 Mbit/s 10 ms - R1 - 2 Mbit/s 10 ms, drop-tail queue of q packets - R2 - 20 Mbit/s 10 ms - terrestrial receivers; R2 - 20 Mbit/s satd ms - satellite receivers. Satellite senders are at A,
# terrestrial ones and UDP at B. Each transfer starts at a time drawn uniformly from the first stag seconds of its group.
# Prints, for each 2,000-s period: variant,seed,period,satellite kbit/s,terrestrial kbit/s,UDP kbit/s (as received in order, headers included), then on stderr the data packets sent and retransmitted. With the variable quiet set: only the data packets sent.
array set A {v newreno seed 1 win 20 mss 960 q 50 satd 260 udp 1 stag 0.1}
foreach kv $argv {
    set i [string first = $kv]
    set A([string range $kv 0 [expr {$i - 1}]]) [string range $kv [expr {$i + 1}] end]
}
array set Agents {tahoe Agent/TCP reno Agent/TCP/Reno newreno Agent/TCP/Newreno sack Agent/TCP/Sack1 vegas Agent/TCP/Vegas}
set ns [new Simulator]
set rng [new RNG]
$rng seed [expr {1000 + $A(seed)}]
foreach node {a b r1 r2 terrestrial satellite} {set $node [$ns node]}
$ns duplex-link $a $r1 20Mb 10ms DropTail
$ns duplex-link $b $r1 20Mb 10ms DropTail
$ns duplex-link $r1 $r2 2Mb 10ms DropTail
$ns duplex-link $r2 $terrestrial 20Mb 10ms DropTail
$ns duplex-link $r2 $satellite 20Mb $A(satd)ms DropTail
$ns queue-limit $r1 $r2 $A(q)

proc transfers {from to start flow} {
    global ns A Agents rng tcps
    set sinks {}
    for {set i 0} {$i < 15} {incr i} {
        set tcp [new $Agents($A(v))]
        set sink [new [expr {$A(v) == "sack" ? "Agent/TCPSink/Sack1" : "Agent/TCPSink"}]]
        $tcp set packetSize_ $A(mss)
        $tcp set window_ $A(win)
        $tcp set fid_ [expr {$flow + $i}]
        $ns attach-agent $from $tcp
        $ns attach-agent $to $sink
        $ns connect $tcp $sink
        set ftp [new Application/FTP]
        $ftp attach-agent $tcp
        $ns at [expr {$start + [$rng uniform 0 $A(stag)]}] "$ftp start"
        lappend sinks $sink
        lappend tcps $tcp
    }
    return $sinks
}
set tcps {}
set groups(satellite) [transfers $a $satellite 0.0 0]
set groups(terrestrial) [transfers $b $terrestrial 2000.0 100]
set source [new Agent/UDP]
$source set packetSize_ 1000
$ns attach-agent $b $source
set monitor [new Agent/LossMonitor]
$ns attach-agent $terrestrial $monitor
$ns connect $source $monitor
set cbr [new Application/Traffic/CBR]
$cbr set packetSize_ 1000
$cbr set rate_ $A(udp)Mb
$cbr attach-agent $source
$ns at 4000.0 "$cbr start"
set groups(udp) $monitor

array set before {satellite 0 terrestrial 0 udp 0}
proc period {number} {
    global A groups before
    set line "$A(v),$A(seed),$number"
    foreach group {satellite terrestrial udp} {
        set bytes 0
        foreach sink $groups($group) {set bytes [expr {$bytes + [$sink set bytes_]}]}
        append line [format ",%.2f" [expr {($bytes - $before($group)) * 8.0 / 2000 / 1e3}]]
        set before($group) $bytes
    }
    puts $line
}
proc finish {} {
    global tcps
    set sent 0
    set again 0
    foreach tcp $tcps {
        set sent [expr {$sent + [$tcp set ndatapack_]}]
        set again [expr {$again + [$tcp set nrexmitpack_]}]
    }
    if {[info exists ::quiet]} {puts $sent} else {puts stderr "data packets $sent, retransmitted $again"}
    exit 0
}
if {![info exists quiet]} {foreach number {1 2 3} {$ns at [expr {2000.0 * $number}] "period $number"}}
$ns at 6000.0001 finish
$ns run
