// The benchmark's scenarios in ns-3, without tracing: bulk flows over one bottleneck, and 15 satellite and 15 terrestrial transfers with UDP.
//   peers bulk FLOWS MBPS DELAY_MS WINDOW_PACKETS QUEUE_PACKETS SECONDS ACCESS_MBPS
//   peers shares
// NewReno with SACK, segments of 1,460 B (bulk) or 960 B (shares), initial window 2, an ACK for each packet, drop-tail queues without a queue discipline above. Prints the data packets that left the senders.
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdlib>
#include <iostream>
#include <string>

using namespace ns3;

static uint64_t g_sent = 0;

static void CountData(Ptr<const Packet> packet, Ptr<Ipv4>, uint32_t)
{
    if (packet->GetSize() > 500) {
        ++g_sent;
    }
}

static NetDeviceContainer Join(Ptr<Node> a, Ptr<Node> b, const std::string& rate, double delayMs, uint32_t queue)
{
    PointToPointHelper helper;
    helper.SetDeviceAttribute("DataRate", StringValue(rate));
    helper.SetDeviceAttribute("Mtu", UintegerValue(1500));
    helper.SetChannelAttribute("Delay", TimeValue(Seconds(delayMs / 1e3)));
    helper.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize(std::to_string(queue) + "p")));
    NetDeviceContainer devices = helper.Install(a, b);
    static Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    addresses.Assign(devices);
    addresses.NewNetwork();
    TrafficControlHelper().Uninstall(devices);
    return devices;
}

static void Transfer(Ptr<Node> from, Ptr<Node> to, uint16_t port, double start)
{
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
    sink.Install(to).Start(Seconds(0));
    Ipv4Address address = to->GetObject<Ipv4>()->GetAddress(1, 0).GetLocal();
    BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(address, port));
    source.SetAttribute("MaxBytes", UintegerValue(0));
    source.SetAttribute("SendSize", UintegerValue(14600));
    source.Install(from).Start(Seconds(start));
}

static void SetTcp(uint32_t segment, uint64_t windowPackets)
{
    uint64_t window = windowPackets * segment;
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpNewReno"));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segment));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(window));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(window));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
}

static void Run(double seconds, const NodeContainer& senders)
{
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    for (auto node = senders.Begin(); node != senders.End(); ++node) {
        (*node)->GetObject<Ipv4L3Protocol>()->TraceConnectWithoutContext("Tx", MakeCallback(&CountData));
    }
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    std::cout << g_sent << std::endl;
    Simulator::Destroy();
}

static void Bulk(char** argument)
{
    uint32_t flows = std::atoi(argument[0]);
    SetTcp(1460, std::atoi(argument[3]));
    NodeContainer nodes;
    nodes.Create(4);
    InternetStackHelper().Install(nodes);
    std::string access = std::string(argument[6]) + "Mbps";
    Join(nodes.Get(0), nodes.Get(1), access, 1, 100000);
    Join(nodes.Get(1), nodes.Get(2), std::string(argument[1]) + "Mbps", std::atof(argument[2]), std::atoi(argument[4]));
    Join(nodes.Get(2), nodes.Get(3), access, 1, 100000);
    Ptr<UniformRandomVariable> start = CreateObject<UniformRandomVariable>();
    for (uint32_t i = 0; i < flows; ++i) {
        Transfer(nodes.Get(0), nodes.Get(3), 1000 + i, flows > 1 ? start->GetValue(0, 1) : 0);
    }
    Run(std::atof(argument[5]), NodeContainer(nodes.Get(0)));
}

static void Shares()
{
    SetTcp(960, 20);
    NodeContainer nodes; // satellite senders, terrestrial senders, R1, R2, terrestrial receivers, satellite receivers
    nodes.Create(6);
    InternetStackHelper().Install(nodes);
    Join(nodes.Get(0), nodes.Get(2), "20Mbps", 10, 50);
    Join(nodes.Get(1), nodes.Get(2), "20Mbps", 10, 50);
    Join(nodes.Get(2), nodes.Get(3), "2Mbps", 10, 50);
    Join(nodes.Get(3), nodes.Get(4), "20Mbps", 10, 50);
    Join(nodes.Get(3), nodes.Get(5), "20Mbps", 260, 50);
    Ptr<UniformRandomVariable> start = CreateObject<UniformRandomVariable>();
    for (uint16_t i = 0; i < 15; ++i) {
        Transfer(nodes.Get(0), nodes.Get(5), 1000 + i, start->GetValue(0, 0.1));
        Transfer(nodes.Get(1), nodes.Get(4), 2000 + i, 2000 + start->GetValue(0, 0.1));
    }
    PacketSinkHelper("ns3::UdpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9)).Install(nodes.Get(4));
    Ipv4Address address = nodes.Get(4)->GetObject<Ipv4>()->GetAddress(1, 0).GetLocal();
    OnOffHelper udp("ns3::UdpSocketFactory", InetSocketAddress(address, 9));
    udp.SetConstantRate(DataRate("1Mbps"), 972);
    udp.Install(nodes.Get(1)).Start(Seconds(4000));
    Run(6000, NodeContainer(nodes.Get(0), nodes.Get(1)));
}

int main(int count, char** argument)
{
    std::string scenario = count > 1 ? argument[1] : "";
    if (scenario == "bulk" && count == 9) {
        Bulk(argument + 2);
    } else if (scenario == "shares" && count == 2) {
        Shares();
    } else {
        std::cerr << "usage: peers bulk FLOWS MBPS DELAY_MS WINDOW QUEUE SECONDS ACCESS | peers shares" << std::endl;
        return 2;
    }
    return 0;
}
