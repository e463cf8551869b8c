package observe

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/flow"
	"github.com/sigma-scheduler/sigma/flow/sim"
	"github.com/sigma-scheduler/sigma/flow/tune"
)

// Bounds of the state. Ports beyond them are counted together, under [Other].
const (
	MostPorts = 256
	MostPeers = 4096
	// ElephantBytes make a flow an elephant.
	ElephantBytes = 10_000_000
	// A running flow that nothing was heard of for so long has ended unseen.
	forgotten = 10 * time.Minute
	// A port without a record for so long makes room.
	silent = 2 * time.Hour
	// firstBand is the size from which histories are judged while there are no thresholds.
	firstBand = 100_000
)

// Other is the key of ports without room of their own.
var Other = Key{Interface: "other"}

// A Key is a sender: clients or servers of a port, behind an interface.
type Key struct {
	Interface string `json:"interface"`
	Protocol  string `json:"protocol"`
	Port      uint16 `json:"port"`
	Side      string `json:"side"`
}

// String is good for a file's name.
func (k Key) String() string {
	if k == Other {
		return "other"
	}
	return fmt.Sprintf("%s-%s-%d-%s", k.Interface, k.Protocol, k.Port, k.Side)
}

func compare(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Interface, b.Interface), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Side, b.Side))
}

func keyOf(r flow.Record) Key {
	port, side := r.Server()
	protocol := fmt.Sprint(r.Protocol)
	switch r.Protocol {
	case flow.TCP:
		protocol = "tcp"
	case flow.UDP:
		protocol = "udp"
	}
	return Key{r.Interface, protocol, port, side.String()}
}

// A port is the state of a key.
type port struct {
	window    flow.Window
	flows     uint64
	bytes     uint64
	elephants uint64
	last      time.Time
	node      flow.Errors // of the estimate for the whole node
	own       flow.History
	port      flow.Errors // of the estimate for the port
	peers     flow.Errors
}

type peer struct {
	key     Key
	address netip.Addr
}

type connection struct {
	Interface           string
	source, destination netip.AddrPort
	protocol            uint8
}

type elephant struct {
	key   Key
	bytes uint64
	at    time.Time
}

// A Watcher summarises the traffic of a node. One goroutine at a time uses it.
type Watcher struct {
	rate    float64 // bits per second of the uplink, 0 = unknown
	buffer  float64 // bytes of its queue
	decider flow.Decider

	window    flow.Window
	sketch    flow.Sketch // of the flows that ended since the last call of Sketch
	flows     uint64
	bytes     uint64
	refused   uint64
	unnamed   uint64 // flows under Other
	ports     map[Key]*port
	node      flow.History
	peers     map[peer]*flow.History
	elephants map[connection]elephant
	meter     meter
}

// NewWatcher makes one for an uplink of so many bits per second, 0 = unknown, with a queue of so many packets.
func NewWatcher(rate float64, queue, bands int) (*Watcher, error) {
	switch {
	case !(rate >= 0) || math.IsInf(rate, 0):
		return nil, fmt.Errorf("rate %v: want bits per second", rate)
	case bands < 2 || bands > flow.MostBands:
		return nil, fmt.Errorf("%d bands: want 2 to %d", bands, flow.MostBands)
	}
	buffer := float64(sim.DefaultBuffer)
	if queue > 0 {
		buffer = float64(queue) * sim.DefaultBuffer / 1000
	}
	return &Watcher{
		rate: rate, buffer: buffer, decider: flow.Decider{Bands: bands, Tuner: tune.Tuner{}},
		ports: map[Key]*port{}, peers: map[peer]*flow.History{}, elephants: map[connection]elephant{},
	}, nil
}

// InForce sets the active thresholds before the first report.
func (w *Watcher) InForce(t flow.Thresholds) { w.decider.Present = t }

// Add takes a record. The flow of a running one is not in the windows yet.
func (w *Watcher) Add(now time.Time, r flow.Record) {
	c := connection{r.Interface, r.Source, r.Destination, r.Protocol}
	key := keyOf(r)
	if r.End == flow.Running {
		if _, known := w.elephants[c]; !known && r.Bytes >= ElephantBytes {
			w.port(now, key).elephants++
		}
		w.elephants[c] = elephant{key, r.Bytes, now}
		return
	}
	_, told := w.elephants[c]
	delete(w.elephants, c)
	size := float64(r.Bytes)
	if _, err := w.window.Add(size); err != nil {
		w.refused++
		return
	}
	_ = w.sketch.Add(size) // as the window
	p := w.port(now, key)
	_, _ = p.window.Add(size) // as above
	p.flows++
	p.bytes += r.Bytes
	w.flows++
	w.bytes += r.Bytes
	if !told && r.Bytes >= ElephantBytes {
		p.elephants++
	}
	w.estimate(now, p, peer{key, r.Destination.Addr()}, size)
}

func (w *Watcher) port(now time.Time, k Key) *port {
	p := w.ports[k]
	if p == nil && len(w.ports) >= MostPorts {
		k = Other
		w.unnamed++
		p = w.ports[k]
	}
	if p == nil {
		p = &port{}
		w.ports[k] = p
	}
	p.last = now
	return p
}

// estimate judges histories on a flow that is larger than the first band, where hints would count.
func (w *Watcher) estimate(now time.Time, p *port, of peer, size float64) {
	first := int64(firstBand)
	if t := w.decider.Present; t != nil {
		first = t[0]
	}
	if size <= float64(first) {
		return
	}
	x := math.Log(size)
	w.node.Judge(now, &p.node, x)
	w.node.Add(now, x)
	p.own.Judge(now, &p.port, x)
	p.own.Add(now, x)
	h := w.peers[of]
	if h == nil {
		if len(w.peers) >= MostPeers {
			return
		}
		h = &flow.History{}
		w.peers[of] = h
	}
	h.Judge(now, &p.peers, x)
	h.Add(now, x)
}

// forget drops elephants and peers that were not seen for long.
func (w *Watcher) forget(now time.Time) {
	for c, e := range w.elephants {
		if now.Sub(e.at) > forgotten {
			delete(w.elephants, c)
		}
	}
	for k, h := range w.peers {
		if h.Silent(now) > 4*flow.HalfLife {
			delete(w.peers, k)
		}
	}
	for k, p := range w.ports {
		if now.Sub(p.last) > silent {
			delete(w.ports, k)
		}
	}
}

// Uplink takes the byte counter of the uplink.
func (w *Watcher) Uplink(now time.Time, sent uint64) { w.meter.add(now, sent) }

// Sketch returns the sizes of the flows that ended since the last call.
func (w *Watcher) Sketch() flow.Sketch {
	s := w.sketch
	w.sketch = flow.Sketch{}
	return s
}

// Sizes are the windows that hold at least so many flows: the node's under the zero Key, and those of the ports.
func (w *Watcher) Sizes(least int) map[Key]*flow.Sizes {
	all := map[Key]*flow.Sizes{}
	add := func(k Key, window *flow.Window) {
		if seen := window.Sizes(); len(seen) >= max(1, least) {
			if s, err := flow.SampleSizes(k.String(), seen); err == nil {
				all[k] = s
			}
		}
	}
	add(Key{}, &w.window)
	for k, p := range w.ports {
		add(k, &p.window)
	}
	return all
}

func (w *Watcher) keys() []Key {
	keys := make([]Key, 0, len(w.ports))
	for k := range w.ports {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}
