package node

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/cilium/ebpf"

	"github.com/sigma-scheduler/sigma/flow"
)

// OrderStatus is the state of an order.
type OrderStatus struct {
	Uplink     string          `json:"uplink"` // empty: it is deleted, and the order with it
	Rate       float64         `json:"rate"`   // bits per second
	Floor      float64         `json:"floor"`  // share of the rate
	Sequence   uint64          `json:"sequence"`
	Thresholds flow.Thresholds `json:"thresholds"`
	ID         uint64          `json:"id"`
	Shaping    bool            `json:"shaping"` // HTB is where the order has put it
	Unseen     uint64          `json:"unseen"`  // packets that the program has not seen: they share a class of their own
	Bands      []BandStatus    `json:"bands"`
	Unkept     uint64          `json:"unkept"`  // packets whose flow found no room
	NoFlow     uint64          `json:"noFlow"`  // packets that belong to no flow: they use the middle band
	Hints      int             `json:"hints"`   // addresses and ports whose flows have a size
	Hinted     uint64          `json:"hinted"`  // flows that were found to have a size
	DSCP       []int           `json:"dscp"`    // by band, written into packets of flows without one; nil = never
	Marked     uint64          `json:"marked"`  // packets that had no code point
	Scope      []netip.Addr    `json:"scope"`   // whose flows are in bands by bytes, in their order; nil = all
	Outside    uint64          `json:"outside"` // packets of others, in the middle band
}

// BandStatus is the traffic of a band since the order is active.
type BandStatus struct {
	From    int64  `json:"from"`    // bytes that a flow has sent before
	Packets uint64 `json:"packets"` // buffers, as the kernel passes them on
	Bytes   uint64 `json:"bytes"`
	Dropped uint64 `json:"dropped"` // packets, of the class's queue
	Waiting uint64 `json:"waiting"` // bytes, in it now
}

// ReadOrder returns the state of the active order, or ErrNoOrder.
func ReadOrder(pins string) (OrderStatus, error) {
	pins = cmp.Or(pins, DefaultPins)
	var s OrderStatus
	l, index, err := pinned(pins)
	if err != nil {
		return s, err
	}
	defer func() { _ = l.Close() }() // the pin holds it
	maps := map[string]*ebpf.Map{}
	defer func() {
		for _, m := range maps {
			_ = m.Close() // only read
		}
	}()
	for _, name := range []string{pinSent, pinCounters} {
		if maps[name], err = ebpf.LoadPinnedMap(filepath.Join(pins, name), nil); err != nil {
			return s, fmt.Errorf("%s: %s: %w", pins, name, err)
		}
	}
	b, err := readSettings(pins)
	if err != nil {
		return s, err
	}
	s.Sequence, s.ID = b.Sequence, b.Id
	for _, v := range b.Above[:b.Count-1] {
		s.Thresholds = append(s.Thresholds, int64(v))
	}
	if b.Hints != 0 {
		hints, err := readHints(pins)
		if err != nil {
			return s, err
		}
		s.Hints = len(hints)
	}
	if b.Dscp[0] != 0 {
		for _, d := range b.Dscp[:b.Count] {
			s.DSCP = append(s.DSCP, int(d))
		}
	}
	if b.Scoped != 0 {
		if s.Scope, err = readScope(pins); err != nil {
			return s, err
		}
	}
	for i := range b.Count {
		var loads []orderLoad
		if err := maps[pinSent].Lookup(i, &loads); err != nil {
			return s, fmt.Errorf("reading what was sent: %w", err)
		}
		var band BandStatus
		if i > 0 {
			band.From = s.Thresholds[i-1]
		}
		for _, l := range loads {
			band.Packets += l.Packets
			band.Bytes += l.Bytes
		}
		s.Bands = append(s.Bands, band)
	}
	for which, to := range map[observeCounter]*uint64{
		observeCounterUNKEPT: &s.Unkept, observeCounterOTHER: &s.NoFlow, observeCounterCUT: &s.NoFlow, observeCounterFRAGMENT: &s.NoFlow,
		observeCounterHINTED: &s.Hinted, observeCounterOUTSIDE: &s.Outside, observeCounterMARKED: &s.Marked,
	} {
		var values []uint64
		if err := maps[pinCounters].Lookup(uint32(which), &values); errors.Is(err, ebpf.ErrKeyNotExist) {
			continue // the order of an earlier version does not count it
		} else if err != nil {
			return s, fmt.Errorf("reading the counters: %w", err)
		}
		for _, v := range values {
			*to += v
		}
	}
	return s, s.readShape(index)
}
