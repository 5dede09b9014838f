// Managed queues and ECN in ns-3: TCP flows from one host to another over a bottleneck with a queue discipline.
//   queues DISCIPLINE FLOWS MBPS RTT_MS SECONDS WARM_UP SEED
// Prints one line of figures from WARM_UP to SECONDS: mean and 95th percentile of the discipline's queue (in ms at the bottleneck's rate), shares
// of packets dropped and marked, payload delivered as a share of what fits, Jain's index of the flows' goodputs. See queues.py.
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

using namespace ns3;

static const uint32_t SEGMENT = 1448;
static const double ACCESS_DELAY_MS = 1;
static const Time SAMPLE_INTERVAL = MilliSeconds(10);

static std::vector<double> g_samples;
static std::vector<uint64_t> g_receivedBefore;
static std::vector<Ptr<PacketSink>> g_sinks;
static QueueDisc::Stats g_before;

static NetDeviceContainer Join(Ptr<Node> a, Ptr<Node> b, const std::string& rate, double delayMs, const std::string& queue)
{
    PointToPointHelper helper;
    helper.SetDeviceAttribute("DataRate", StringValue(rate));
    helper.SetDeviceAttribute("Mtu", UintegerValue(1500));
    helper.SetChannelAttribute("Delay", TimeValue(Seconds(delayMs / 1e3)));
    helper.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize(queue)));
    NetDeviceContainer devices = helper.Install(a, b);
    static Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    addresses.Assign(devices);
    addresses.NewNetwork();
    TrafficControlHelper().Uninstall(devices);
    return devices;
}

// RFC 8033 with its defaults and its section 5.4, as bentpipe has it. Not so with ECN: a mark of ns-3 seems to leave the sum of probabilities
// as it is.
static void SetPie(const std::string& type, bool ecn)
{
    Config::SetDefault(type + "::MeanPktSize", UintegerValue(1500));
    Config::SetDefault(type + "::QueueDelayReference", TimeValue(MilliSeconds(15)));
    Config::SetDefault(type + "::Tupdate", TimeValue(MilliSeconds(15)));
    Config::SetDefault(type + "::MaxBurstAllowance", TimeValue(MilliSeconds(150)));
    Config::SetDefault(type + "::UseDequeueRateEstimator", BooleanValue(false));
    Config::SetDefault(type + "::UseDerandomization", BooleanValue(!ecn));
    Config::SetDefault(type + "::UseCapDropAdjustment", BooleanValue(true));
    Config::SetDefault(type + "::UseEcn", BooleanValue(ecn));
    Config::SetDefault(type + "::MaxSize", QueueSizeValue(QueueSize("1000p")));
}

// Gentle RED with the distances between drops of Floyd and Jacobson (1993): without ns-2's "wait".
static void SetRed(double min, double max, double weight, double inverseOfMaxProbability, bool ecn, double mbps)
{
    Config::SetDefault("ns3::RedQueueDisc::MinTh", DoubleValue(min));
    Config::SetDefault("ns3::RedQueueDisc::MaxTh", DoubleValue(max));
    Config::SetDefault("ns3::RedQueueDisc::QW", DoubleValue(weight));
    Config::SetDefault("ns3::RedQueueDisc::LInterm", DoubleValue(inverseOfMaxProbability));
    Config::SetDefault("ns3::RedQueueDisc::Gentle", BooleanValue(true));
    Config::SetDefault("ns3::RedQueueDisc::Wait", BooleanValue(false));
    Config::SetDefault("ns3::RedQueueDisc::UseEcn", BooleanValue(ecn));
    Config::SetDefault("ns3::RedQueueDisc::UseHardDrop", BooleanValue(true));
    Config::SetDefault("ns3::RedQueueDisc::MeanPktSize", UintegerValue(1500));
    Config::SetDefault("ns3::RedQueueDisc::IdlePktSize", UintegerValue(1500));
    Config::SetDefault("ns3::RedQueueDisc::LinkBandwidth", DataRateValue(DataRate(uint64_t(mbps * 1e6))));
    Config::SetDefault("ns3::RedQueueDisc::MaxSize", QueueSizeValue(QueueSize("1000p")));
}

// The queue discipline of this name, with its parameters; also sets what TCP needs for it.
static std::string SetDiscipline(const std::string& name, double mbps)
{
    bool isDctcp = name == "dctcp";
    bool ecn = name.size() > 4 && name.substr(name.size() - 4) == "-ecn";
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue(isDctcp ? "ns3::TcpDctcp" : "ns3::TcpNewReno"));
    Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue(ecn || isDctcp ? "On" : "Off"));
    if (name == "pie" || name == "pie-ecn") {
        SetPie("ns3::PieQueueDisc", ecn);
        return "ns3::PieQueueDisc";
    }
    if (name == "fq-pie") {
        SetPie("ns3::FqPieQueueDisc", ecn);
        return "ns3::FqPieQueueDisc";
    }
    if (name == "red" || name == "red-ecn") {
        SetRed(10, 30, 0.002, 10, ecn, mbps);
        return "ns3::RedQueueDisc";
    }
    if (isDctcp) {
        SetRed(15, 15, 1, 1, true, mbps);
        return "ns3::RedQueueDisc";
    }
    std::cerr << name << ": unknown" << std::endl;
    std::exit(2);
}

static void Sample(Ptr<QueueDisc> discipline, double mbps)
{
    g_samples.push_back(discipline->GetNBytes() * 8 / (mbps * 1e3));
    Simulator::Schedule(SAMPLE_INTERVAL, &Sample, discipline, mbps);
}

static void Begin(Ptr<QueueDisc> discipline, double mbps)
{
    for (const auto& sink : g_sinks) {
        g_receivedBefore.push_back(sink->GetTotalRx());
    }
    g_before = discipline->GetStats();
    Sample(discipline, mbps);
}

int main(int count, char** argument)
{
    if (count != 8) {
        std::cerr << "usage: queues DISCIPLINE FLOWS MBPS RTT_MS SECONDS WARM_UP SEED" << std::endl;
        return 2;
    }
    std::string name = argument[1];
    uint32_t flows = std::atoi(argument[2]);
    double mbps = std::atof(argument[3]), rttMs = std::atof(argument[4]);
    double seconds = std::atof(argument[5]), warmUp = std::atof(argument[6]);
    RngSeedManager::SetRun(std::atoi(argument[7]));

    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(SEGMENT));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 22));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 22));
    std::string type = SetDiscipline(name, mbps);

    NodeContainer nodes;
    nodes.Create(4);
    InternetStackHelper().Install(nodes);
    Join(nodes.Get(0), nodes.Get(1), "1Gbps", ACCESS_DELAY_MS, "100000p");
    // Behind the discipline the device keeps one packet, the least it can: it lengthens the path by one transmission.
    NetDeviceContainer bottleneck =
        Join(nodes.Get(1), nodes.Get(2), std::to_string(uint64_t(mbps * 1e6)) + "bps", rttMs / 2 - 2 * ACCESS_DELAY_MS, "1p");
    Join(nodes.Get(2), nodes.Get(3), "1Gbps", ACCESS_DELAY_MS, "100000p");
    TrafficControlHelper control;
    control.SetRootQueueDisc(type);
    Ptr<QueueDisc> discipline = control.Install(bottleneck.Get(0)).Get(0);
    // Acknowledgements wait for nothing but their transmission.
    TrafficControlHelper plain;
    plain.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", QueueSizeValue(QueueSize("100000p")));
    plain.Install(bottleneck.Get(1));
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    Ipv4Address server = nodes.Get(3)->GetObject<Ipv4>()->GetAddress(1, 0).GetLocal();
    Ptr<UniformRandomVariable> start = CreateObject<UniformRandomVariable>();
    for (uint32_t i = 0; i < flows; ++i) {
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 1000 + i));
        ApplicationContainer sinks = sink.Install(nodes.Get(3));
        sinks.Start(Seconds(0));
        g_sinks.push_back(DynamicCast<PacketSink>(sinks.Get(0)));
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(server, 1000 + i));
        source.SetAttribute("MaxBytes", UintegerValue(0));
        source.SetAttribute("SendSize", UintegerValue(10 * SEGMENT));
        source.Install(nodes.Get(0)).Start(Seconds(start->GetValue(0, 5)));
    }
    Simulator::Schedule(Seconds(warmUp), &Begin, discipline, mbps);
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();

    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < flows; ++i) {
        double rate = (g_sinks[i]->GetTotalRx() - g_receivedBefore[i]) * 8 / (seconds - warmUp);
        sum += rate;
        squares += rate * rate;
    }
    QueueDisc::Stats after = discipline->GetStats();
    double offered = after.nTotalReceivedPackets - g_before.nTotalReceivedPackets;
    double mean = 0;
    for (double sample : g_samples) {
        mean += sample / g_samples.size();
    }
    std::sort(g_samples.begin(), g_samples.end());
    std::cout << mean << "," << g_samples[size_t(g_samples.size() * 0.95)] << ","
              << (after.nTotalDroppedPackets - g_before.nTotalDroppedPackets) / offered << ","
              << (after.nTotalMarkedPackets - g_before.nTotalMarkedPackets) / offered << ","
              << sum / (mbps * 1e6 * SEGMENT / 1502) << "," << sum * sum / (flows * squares) << std::endl;
    Simulator::Destroy();
    return 0;
}
