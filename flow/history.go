package flow

import (
	"cmp"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"
)

// A History estimates the log of a size: the mean of the logs before. A flow of an hour ago counts half. The zero value
// is empty.
type History struct {
	Flows  int
	Mean   float64
	weight float64
	last   time.Time
}

// Add learns from the log of a size.
func (h *History) Add(now time.Time, logSize float64) {
	h.weight = h.weight*Decay(now.Sub(h.last)) + 1
	h.Mean += (logSize - h.Mean) / h.weight
	h.Flows++
	h.last = now
}

// Judge adds the error of the estimate, if there were enough flows for one.
func (h *History) Judge(now time.Time, to *Errors, logSize float64) {
	if h.Flows >= TrustAfter {
		to.Add(now, logSize-h.Mean)
	}
}

// Silent is how long nothing was learned.
func (h *History) Silent(now time.Time) time.Duration { return now.Sub(h.last) }

// When sizes from history are used, and how many are kept.
const (
	// HistoryGain bounds the deviation of a port's estimate, as a share of that of the node's estimate on the same
	// flows. At .8 the port explains a third of the variance; if all flows have one port it explains nothing.
	HistoryGain = .8
	// MostWorkloads have a history, of MostHintPorts each.
	MostWorkloads = 512
)

// historyStep is how far the mean of the logs moves from the published size before that follows: else the kernel's map
// would change with each flow.
const historyStep = .25

// A past is that of a workload's port.
type past struct {
	history   History
	told      float64 // log of the published size
	own, node Errors  // of that size, and of the node's history, on the same flows
}

// add judges the published size by a flow that ended, and learns from it.
func (p *past) add(now time.Time, node *History, logSize float64) {
	if p.history.Flows >= TrustAfter {
		p.own.Add(now, logSize-p.told)
		node.Judge(now, &p.node, logSize)
	}
	p.history.Add(now, logSize)
	if p.history.Flows <= TrustAfter || math.Abs(p.history.Mean-p.told) > historyStep {
		p.told = p.history.Mean
	}
}

func (p *past) trusted() bool {
	return p.own.Trusted() && p.node.Flows > 0 && *p.own.Sigma() < HistoryGain**p.node.Sigma()
}

func (p *past) size() int64 { return int64(min(math.Round(math.Exp(p.told)), LargestThreshold)) }

// own makes these the addresses of workloads. One that two workloads have is nobody's.
func (h *Hinter) own(all []Declaration) {
	h.owners = map[netip.Addr]string{}
	shared := map[netip.Addr]bool{}
	for _, d := range all {
		for _, a := range d.Addresses {
			a = a.Unmap()
			if was, ok := h.owners[a]; ok && was != d.Workload {
				shared[a] = true
			}
			h.owners[a] = d.Workload
		}
	}
	maps.DeleteFunc(h.owners, func(a netip.Addr, _ string) bool { return shared[a] })
}

// forget drops the ports that were silent for long.
func (h *Hinter) forget(now time.Time) {
	for w, ports := range h.pasts {
		maps.DeleteFunc(ports, func(_ uint16, p *past) bool { return p.history.Silent(now) > silentSource })
		if len(ports) == 0 {
			delete(h.pasts, w)
		}
	}
}

// learn takes a flow that ended, beyond the first band.
func (h *Hinter) learn(now time.Time, r Record, logSize float64) {
	defer h.node.Add(now, logSize)
	workload, ok := h.owners[r.Source.Addr()]
	if !ok {
		return
	}
	ports := h.pasts[workload]
	if ports == nil {
		if len(h.pasts) >= MostWorkloads {
			return
		}
		if h.pasts == nil {
			h.pasts = map[string]map[uint16]*past{}
		}
		ports = map[uint16]*past{}
		h.pasts[workload] = ports
	}
	port, _ := r.Server()
	p := ports[port]
	if p == nil {
		if len(ports) >= MostHintPorts {
			delete(ports, longestSilent(now, ports))
		}
		p = &past{}
		ports[port] = p
	}
	p.add(now, &h.node, logSize)
}

func longestSilent(now time.Time, ports map[uint16]*past) (longest uint16) {
	for port, p := range ports {
		if l := ports[longest]; l == nil || cmp.Or(cmp.Compare(p.history.Silent(now), l.history.Silent(now)), cmp.Compare(port, longest)) > 0 {
			longest = port
		}
	}
	return longest
}

// remembered adds the sizes from history of addresses and ports without one.
func (h *Hinter) remembered(to map[HintKey]HintSource) {
	more := map[HintKey]HintSource{}
	for a, workload := range h.owners {
		for port, p := range h.pasts[workload] {
			k := HintKey{a, port}
			if _, said := to[k]; !said && p.trusted() {
				more[k] = HintSource{workload, port, p.size(), FromHistory}
			}
		}
	}
	keys := slices.SortedFunc(maps.Keys(more), func(a, b HintKey) int { return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Port, b.Port)) })
	for _, k := range keys[:min(len(keys), MostHints-len(to))] {
		to[k] = more[k]
	}
}
