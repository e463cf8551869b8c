package flow

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of hints.
const (
	MostHints     = 16384 // addresses and ports of a node
	MostHintPorts = 32    // of a workload
)

// A HintKey identifies the flows with a size: those that an address sends from a port, or to a port of the other side.
type HintKey struct {
	Address netip.Addr
	Port    uint16
}

// Hints are sizes in bytes, from 1 to 1 TB.
type Hints map[HintKey]int64

// find returns a map's value for a flow: its sender's port has priority over that of the other side.
func find[T any](in map[HintKey]T, source, destination netip.AddrPort) (found T, ok bool) {
	for _, port := range []uint16{source.Port(), destination.Port()} {
		if found, ok = in[HintKey{source.Addr(), port}]; ok {
			return found, true
		}
	}
	return found, false
}

// Of is the known size of a flow, 0 if there is none.
func (h Hints) Of(source, destination netip.AddrPort) int64 {
	size, _ := find(h, source, destination)
	return size
}

// Hinted is the band of a flow that has sent so many bytes and whose size is given as hint, 0 without a hint: the first
// up to the first threshold whatever the hint, and after it the deeper of two.
func (t Thresholds) Hinted(sent, hint int64) int {
	if sent >= t[0] && hint > sent {
		sent = hint - 1 // the bytes before the last one
	}
	return t.Band(sent)
}

// ParseHints reads the sizes of the flows of ports, such as 5432=10M,80=20k.
func ParseHints(text string) (map[uint16]int64, error) {
	sizes := map[uint16]int64{}
	for part := range strings.SplitSeq(text, ",") {
		port, size, found := strings.Cut(strings.TrimSpace(part), "=")
		if !found {
			return nil, fmt.Errorf("%q: want a port and a size in bytes, such as 5432=10M", part)
		}
		p, err := strconv.ParseUint(port, 10, 16)
		if err != nil || p == 0 {
			return nil, fmt.Errorf("%q: port %q: want 1 to 65535", part, port)
		}
		v, err := ParseAmount(size)
		if err != nil {
			return nil, fmt.Errorf("port %d: %w", p, err)
		}
		if v < 1 || v > LargestThreshold || v != math.Trunc(v) {
			return nil, fmt.Errorf("port %d: %q: want whole bytes, 1 to 1T", p, size)
		}
		if _, twice := sizes[uint16(p)]; twice {
			return nil, fmt.Errorf("port %d: twice", p)
		}
		if sizes[uint16(p)] = int64(v); len(sizes) > MostHintPorts {
			return nil, fmt.Errorf("more than %d ports", MostHintPorts)
		}
	}
	return sizes, nil
}

// A Declaration has the sizes of the flows of a workload's addresses, by port. Without sizes it only gives the owner of
// the addresses.
type Declaration struct {
	Workload  string
	Addresses []netip.Addr
	Sizes     map[uint16]int64
}

// Sources of a size.
const (
	FromDeclared = "declared"
	FromHistory  = "history"
)

// A HintSource is trusted or not as a whole. Another declared size is another source; the size of a source from history
// changes with its flows.
type HintSource struct {
	Workload string `json:"workload"`
	Port     uint16 `json:"port"`
	Size     int64  `json:"size"`
	From     string `json:"from"`
}

// silentSource is how long a source is kept that nobody declares and no flow belongs to.
const silentSource = 2 * time.Hour

// A Hinter holds the declared sizes, the sizes of earlier flows, and the errors of both. Declared sizes have priority
// over those of history. One goroutine at a time uses it. The zero value is ready.
type Hinter struct {
	declared map[HintKey]HintSource
	errors   map[HintSource]*Errors

	owners map[netip.Addr]string // workloads of addresses
	pasts  map[string]map[uint16]*past
	node   History // of all flows
}

// Declare replaces the declared sizes and the owners of addresses; nothing is learned of other addresses. If two
// sources give different sizes for the same flows, both are left out, and so are sizes beyond MostHints.
func (h *Hinter) Declare(now time.Time, all []Declaration) {
	declared, twice := map[HintKey]HintSource{}, map[HintKey]bool{}
	for _, d := range all {
		for port, size := range d.Sizes {
			for _, a := range d.Addresses {
				k, s := HintKey{a.Unmap(), port}, HintSource{d.Workload, port, size, FromDeclared}
				if was, ok := declared[k]; ok && was != s {
					twice[k] = true
				} else if ok || len(declared) < MostHints {
					declared[k] = s
				}
			}
		}
	}
	maps.DeleteFunc(declared, func(k HintKey, _ HintSource) bool { return twice[k] })
	h.declared = declared
	if h.errors == nil {
		h.errors = map[HintSource]*Errors{}
	}
	present := map[HintSource]bool{}
	for _, s := range declared {
		present[s] = true
		if h.errors[s] == nil {
			h.errors[s] = &Errors{}
		}
	}
	maps.DeleteFunc(h.errors, func(s HintSource, e *Errors) bool { return !present[s] && now.Sub(e.last) > silentSource })
	h.own(all)
	h.forget(now)
}

// Judge takes a flow that ended, in bands of which the first ends after so many bytes: up to there no hint counts.
func (h *Hinter) Judge(now time.Time, r Record, first int64) {
	if r.End == Running || r.Bytes <= uint64(first) {
		return
	}
	x := math.Log(float64(r.Bytes))
	if s, ok := find(h.declared, r.Source, r.Destination); ok {
		h.errors[s].Add(now, x-math.Log(float64(s.Size)))
	}
	h.learn(now, r, x)
}

// Trusted are the sizes that may be used now.
func (h *Hinter) Trusted() Hints {
	trusted := Hints{}
	for k, s := range h.used() {
		trusted[k] = s.Size
	}
	return trusted
}

func (h *Hinter) used() map[HintKey]HintSource {
	used := map[HintKey]HintSource{}
	for k, s := range h.declared {
		if h.errors[s].Trusted() {
			used[k] = s
		}
	}
	h.remembered(used)
	return used
}

// A HintState is the state of a source.
type HintState struct {
	HintSource
	Flows int      `json:"flows"` // that were judged
	Sigma *float64 `json:"sigma"` // of the log of their sizes around that of the source; nil without flows
	// Of history: the same around an estimate that ignores the port.
	SigmaNode *float64 `json:"sigma_node,omitempty"`
	Used      bool     `json:"used"` // for some address, if a policy orders
}

// States are those of the declared sources, and of the sources from history that a flow has judged, in order.
func (h *Hinter) States() []HintState {
	seen, used := map[HintSource]bool{}, map[HintSource]bool{}
	for _, s := range h.used() {
		used[s] = true
	}
	var all []HintState
	for _, s := range h.declared {
		if e := h.errors[s]; !seen[s] {
			seen[s] = true
			all = append(all, HintState{s, e.Flows, e.Sigma(), nil, used[s]})
		}
	}
	for _, workload := range h.owners {
		for port, p := range h.pasts[workload] {
			if s := (HintSource{workload, port, p.size(), FromHistory}); p.own.Flows > 0 && !seen[s] {
				seen[s] = true
				all = append(all, HintState{s, p.own.Flows, p.own.Sigma(), p.node.Sigma(), used[s]})
			}
		}
	}
	slices.SortFunc(all, func(a, b HintState) int {
		return cmp.Or(cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Port, b.Port), cmp.Compare(a.From, b.From), cmp.Compare(a.Size, b.Size))
	})
	return all
}
