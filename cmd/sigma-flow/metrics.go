package main

import (
	"strconv"

	"github.com/golang/glog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/node"
	"github.com/sigma-scheduler/sigma/flow/observe"
)

// A collector gives the program's counters as they are, and the rest as of the last report.
type collector struct{ agent *agent }

// The size is empty for history: that one follows its flows.
var hintLabels = []string{"workload", "port", "size", "source"}

var portLabels = []string{"interface", "protocol", "port", "side"}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("sigma_flow_"+name, help, labels, nil)
}

var (
	descOpened     = describe("opened_total", "Flows that began.")
	descLost       = describe("records_lost_total", "Records of flows that found the ring buffer full.")
	descEvicted    = describe("evicted_total", "Flows, the oldest, that made room for others and were not told of.")
	descPackets    = describe("packets_without_flow_total", "Packets that are counted for no flow.", "why")
	descSeen       = describe("packets_seen_ratio", "Packets that the program saw over those that the interfaces counted; below .99 it is not attached everywhere.")
	descInterfaces = describe("interfaces", "Interfaces that are watched.")
	descLoad       = describe("uplink_load_ratio", "Load of the uplink over up to ten minutes.")
	descSent       = describe("uplink_sent_bits_per_second", "What the uplink sent over up to ten minutes.")
	descWait       = describe("short_wait_seconds", "Simulated wait of flows up to 100 kB at this load: fair sharing, a common queue (within a factor of two), bands.", "order")
	descThreshold  = describe("proposed_threshold_bytes", "Bytes after which a flow leaves a band, or would where nothing is ordered; with --policy what this node alone would have, and the NodeFlows says what is in force.", "band")
	descOrdering   = describe("ordering", "1 where an order is on and its queueing discipline is in its place; not with --observe.")
	descBand       = describe("band_bytes_total", "What the uplink sent of a band, headers included, since the order is on; not with --observe.", "band")
	descSequence   = describe("policy_sequence", "Sequence number of the FlowPolicy's thresholds that were taken last; with --policy only.")
	descRefused    = describe("policy_refused_total", "FlowPolicies that were older than what was taken, or of no sense; with --policy only.")
	descHintFlows  = describe("hint_flows_total", "Flows beyond the first band that a size was judged by, declared or of history; with --policy only.", hintLabels...)
	descHintError  = describe("hint_log_error", "Deviation of the log of their sizes around that size; with --policy only.", hintLabels...)
	descHintNode   = describe("hint_node_log_error", "Deviation of the same around an estimate that knows nothing of the port; of history, with --policy only.", hintLabels...)
	descHintUsed   = describe("hint_used", "1 where the size may be used: after 30 flows, while their deviation is at most 1 and, of history, below .8 of hint_node_log_error; with --policy only.", hintLabels...)
	descWindow     = describe("window_sizes", "Sizes in the node's window.")
	descChanges    = describe("window_changes_total", "How often the distribution of sizes changed.")
	descRunning    = describe("running_elephants", "Flows of 10 MB and more that are running.")

	descFlows     = describe("port_flows_total", "Flows that ended.", portLabels...)
	descBytes     = describe("port_bytes_total", "Their bytes.", portLabels...)
	descElephants = describe("port_elephants_total", "Flows that reached 10 MB.", portLabels...)
	descSize      = describe("port_size_bytes", "Sizes in the port's window.", append([]string{"quantile"}, portLabels...)...)
	descError     = describe("port_size_log_error", "Deviation of the log of the size around an estimate from flows before.", append([]string{"by"}, portLabels...)...)
)

// Describe sends all of them.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descOpened, descLost, descEvicted, descPackets, descSeen, descInterfaces, descLoad, descSent, descWait, descThreshold, descOrdering, descBand, descSequence, descRefused, descWindow, descChanges,
		descHintFlows, descHintError, descHintNode, descHintUsed,
		descRunning, descFlows, descBytes, descElephants, descSize, descError,
	} {
		to <- d
	}
}

// Collect sends the metrics that have a value.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	const total, gauge = prometheus.CounterValue, prometheus.GaugeValue
	maybe := func(d *prometheus.Desc, v *float64, labels ...string) {
		if v != nil {
			send(d, gauge, *v, labels...)
		}
	}
	counts, err := c.agent.observer.Counts()
	if err != nil { // it is closed
		glog.V(1).Infof("no counters: %v", err)
		return
	}
	send(descOpened, total, float64(counts.Opened))
	send(descLost, total, float64(counts.Lost))
	send(descEvicted, total, float64(c.agent.evicted.Load()))
	for why, n := range map[string]uint64{"other protocol": counts.Other, "cut": counts.Cut, "later fragment": counts.Fragments, "no room": counts.Unkept} {
		send(descPackets, total, float64(n), why)
	}
	if h, err := c.agent.health(); err == nil {
		maybe(descSeen, h.Seen)
		send(descInterfaces, gauge, float64(h.Interfaces))
	}
	if !c.agent.observe {
		s, err := node.ReadOrder(c.agent.pins)
		on := 0.
		if err == nil && s.Shaping {
			on = 1
		}
		send(descOrdering, gauge, on)
		for i, b := range s.Bands {
			send(descBand, total, float64(b.Bytes), strconv.Itoa(i))
		}
	}
	if c.agent.follower != nil {
		if s := c.agent.follower.Status(); s != nil {
			send(descSequence, gauge, float64(s.Sequence))
			send(descRefused, total, float64(s.Refused))
		}
	}
	r := c.agent.last.Load()
	if r == nil {
		return
	}
	for _, h := range r.Hints {
		size := strconv.FormatInt(h.Size, 10)
		if h.From == flow.FromHistory {
			size = ""
		}
		labels := []string{h.Workload, strconv.Itoa(int(h.Port)), size, h.From}
		send(descHintFlows, total, float64(h.Flows), labels...)
		maybe(descHintError, h.Sigma, labels...)
		maybe(descHintNode, h.SigmaNode, labels...)
		used := 0.
		if h.Used {
			used = 1
		}
		send(descHintUsed, gauge, used, labels...)
	}
	maybe(descLoad, r.Load)
	maybe(descSent, r.Sent)
	send(descWindow, gauge, float64(r.Window))
	send(descChanges, total, float64(r.Changes))
	send(descRunning, gauge, float64(r.Running))
	if r.Waits != nil {
		send(descWait, gauge, r.Waits.ShortFair, "fair")
		send(descWait, gauge, r.Waits.ShortCommon, "common")
		maybe(descWait, r.Waits.ShortBands, "bands")
	}
	if t, err := flow.ParseThresholds(r.Thresholds); err == nil {
		for i, v := range t {
			send(descThreshold, gauge, float64(v), strconv.Itoa(i))
		}
	}
	for _, p := range r.Ports {
		labels := keyLabels(p.Key)
		send(descFlows, total, float64(p.Flows), labels...)
		send(descBytes, total, float64(p.Bytes), labels...)
		send(descElephants, total, float64(p.Elephants), labels...)
		if p.Window > 0 {
			send(descSize, gauge, p.Median, append([]string{"0.5"}, labels...)...)
			send(descSize, gauge, p.P99, append([]string{"0.99"}, labels...)...)
		}
		maybe(descError, p.SigmaNode, append([]string{"node"}, labels...)...)
		maybe(descError, p.SigmaPort, append([]string{"port"}, labels...)...)
		maybe(descError, p.SigmaPeer, append([]string{"peer"}, labels...)...)
	}
}

func keyLabels(k observe.Key) []string {
	return []string{k.Interface, k.Protocol, strconv.Itoa(int(k.Port)), k.Side}
}
