# One file transfer over a GEO satellite path, losing chosen packets of the satellite hop, in ns-2.
#   ns transfer.tcl v=sack drop=100,150 [file=1000000 mss=1460 bw=6 delay=275 win=500 iw=2 q=600 delack=0 start=0 trace=FILE]
#   ns transfer.tcl v=sack one=1 drop=60 file=480000 mss=960 bw=2 delay=250 win=100 q=100000
# v: tahoe reno newreno sack vegas. drop: indices of packets offered to the first satellite link, the SYN being 0; "-" or nothing for none.
# start: when the transfer begins (s); what is printed counts from then.
# delack=1: the receiver delays acknowledgements (Agent/TCPSink/DelAck, Agent/TCPSink/Sack1/DelAck).
# one=1: one duplex link only, sender to receiver, instead of sender - 1 ms LAN - UG - satellite - DG - 1 ms LAN - receiver.
# Prints: variant,drop list,last in-order byte at the receiver (s),sender done (s),data packets sent,retransmitted packets,retransmission timeouts,final ssthresh (packets)
array set A {v sack drop "" file 1000000 mss 1460 bw 6 delay 275 win 500 iw 2 q 600 one 0 delack 0 start 0.0 trace "" tmax 200000}
foreach kv $argv {
    set i [string first = $kv]
    set A([string range $kv 0 [expr {$i - 1}]]) [string range $kv [expr {$i + 1}] end]
}
if {$A(drop) == "-"} {set A(drop) ""}

Class Application/Receiver -superclass Application
Application/Receiver instproc recv {bytes} {
    $self instvar last_
    set last_ [[Simulator instance] now]
}
Application/Receiver instproc last {} {
    $self instvar last_
    return $last_
}

set ns [new Simulator]
if {$A(trace) != ""} {$ns trace-all [open $A(trace) w]}
set ug [$ns node]
set dg [$ns node]
$ns duplex-link $ug $dg $A(bw)Mb $A(delay)ms DropTail
$ns queue-limit $ug $dg $A(q)
$ns queue-limit $dg $ug $A(q)
if {$A(one)} {
    set sender $ug
    set receiver $dg
} else {
    set sender [$ns node]
    set receiver [$ns node]
    set lan [expr {$A(bw) >= 10 ? "100Mb" : "10Mb"}]
    $ns duplex-link $sender $ug $lan 1ms DropTail
    $ns duplex-link $dg $receiver $lan 1ms DropTail
    foreach {a b} [list $sender $ug $dg $receiver] {
        $ns queue-limit $a $b $A(q)
        $ns queue-limit $b $a $A(q)
    }
}
if {$A(drop) != ""} {
    set errors [new ErrorModel/List]
    $errors droplist [split $A(drop) ,]
    $errors drop-target [new Agent/Null]
    $ns link-lossmodel $errors $ug $dg
}

array set Agents {tahoe Agent/TCP reno Agent/TCP/Reno newreno Agent/TCP/Newreno sack Agent/TCP/Sack1 vegas Agent/TCP/Vegas}
set tcp [new $Agents($A(v))]
set sink [new [expr {$A(v) == "sack" ? "Agent/TCPSink/Sack1" : "Agent/TCPSink"}][expr {$A(delack) ? "/DelAck" : ""}]]
$tcp set packetSize_ $A(mss)
$tcp set window_ $A(win)
$tcp set windowInit_ $A(iw)
$ns attach-agent $sender $tcp
$ns attach-agent $receiver $sink
$ns connect $tcp $sink
set app [new Application/Receiver]
$app attach-agent $sink
$app start
set ftp [new Application/FTP]
$ftp attach-agent $tcp
$ns at $A(start) "$ftp send $A(file)"

proc report {} {
    global A app ns tcp
    puts [format "%s,\"%s\",%.6f,%.6f,%d,%d,%d,%d" $A(v) $A(drop) [expr {[$app last] - $A(start)}] [expr {[$ns now] - $A(start)}] [$tcp set ndatapack_] [$tcp set nrexmitpack_] [$tcp set nrexmit_] [$tcp set ssthresh_]]
    exit 0
}
Agent/TCP instproc done {} report
$ns at $A(tmax) {puts stderr "not finished"; exit 1}
$ns run
