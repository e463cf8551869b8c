package sim

import (
	"math"
	"math/bits"

	"github.com/sigma-scheduler/sigma/flow"
)

// A Link serves flows at a rate. It may be used again, by one goroutine at a time.
type Link struct {
	Gap   float64 // seconds: a silence of this length ends a message of a connection
	rate  float64 // bytes per second
	bands [flow.MostBands]band
	queue heap
	stack []group
	spare []heap
	young []entry
	conns []connection
}

// A band shares the link evenly among its flows while the bands before it are empty. Its
// virtual time is the bytes that a flow there since the last time it was empty would have got.
// The key of a flow is the virtual time at which it leaves; final ones end there.
type band struct {
	heap heap
	time float64
}

// NewLink makes a link of so many bits per second.
func NewLink(rate float64) *Link { return &Link{rate: rate / 8} }

// A leaving flow whose size ends in its band has its number, one that moves to a deeper band
// the complement.
func leaves(id int, final bool) int32 {
	if final {
		return int32(id)
	}
	return ^int32(id)
}

// Bands writes to fct how long each flow takes, in seconds. With no thresholds it is fair
// sharing. Hints count after the first band. The bytes of a connection's flows count together until it is silent for Gap.
func (l *Link) Bands(flows []Flow, thresholds flow.Thresholds, fct []float64) {
	// Time is counted in bytes that the link could have served.
	c, perByte := l.rate, 1/l.rate
	var edge [flow.MostBands]float64 // bytes sent at which a flow leaves a band
	for b := range edge {
		edge[b] = math.Inf(1)
	}
	for b, t := range thresholds {
		edge[b] = float64(t)
	}
	last, first := len(thresholds), edge[0]
	for b := range l.bands {
		l.bands[b].heap, l.bands[b].time = l.bands[b].heap[:0], 0
	}
	busy := uint(0) // a bit for each band with flows
	now := 0.
	before := l.connect(flows, thresholds) // bytes that a flow's connection has sent, nil = no connections
	enter := func(id int, b int, sent float64) {
		q := &l.bands[b]
		if len(q.heap) == 0 {
			q.time = 0
			busy |= 1 << b
		}
		size := flows[id].Size
		if before != nil {
			size += before[id]
		}
		q.heap.push(entry{q.time + (min(size, edge[b]) - sent), leaves(id, size <= edge[b])})
	}
	deeper := func(id int, b int) int { return min(max(b+1, int(flows[id].Hint)), last) }
	next := math.Inf(1)
	if len(flows) > 0 {
		next = flows[0].At * c
	}
	for i := 0; ; {
		// Serve the present flows until the next arrival.
		for busy != 0 {
			b := bits.TrailingZeros(busy)
			q := &l.bands[b]
			n := float64(len(q.heap))
			end := now + (q.heap[0].key-q.time)*n
			if end > next {
				q.time += (next - now) / n
				break
			}
			now = end
			q.time = q.heap[0].key
			id := q.heap[0].id
			q.heap.pop()
			if len(q.heap) == 0 {
				busy &^= 1 << b
			}
			if id >= 0 {
				fct[id] = now*perByte - flows[id].At
				if before != nil {
					l.conns[flows[id].Connection].end(now * perByte)
				}
			} else {
				enter(int(^id), deeper(int(^id), b), edge[b])
			}
		}
		if i == len(flows) {
			return
		}
		now = max(now, next)
		id, size := i, flows[i].Size
		i++
		next = math.Inf(1)
		if i < len(flows) {
			next = flows[i].At * c
		}
		if before != nil {
			sent := l.conns[flows[id].Connection].begin(&flows[id], l.Gap)
			before[id] = sent
			b := thresholds.Band(int64(sent))
			if b > 0 {
				b = deeper(id, b-1)
			}
			enter(id, b, sent)
			continue
		}
		if own := min(size, first); busy&1 == 0 && now+own <= next {
			// Alone in the first band until it leaves it.
			now += own
			if size <= first {
				fct[id] = size * perByte
			} else {
				enter(id, deeper(id, 0), first)
			}
			continue
		}
		enter(id, 0, 0)
	}
}

// SRPT serves the flow with the fewest bytes left: no order has a smaller mean time.
func (l *Link) SRPT(flows []Flow, fct []float64) {
	c, perByte := l.rate, 1/l.rate
	l.queue = l.queue[:0]
	now := 0.
	var current entry // key: bytes left
	running := false
	for i := 0; i < len(flows) || running; {
		next := math.Inf(1)
		if i < len(flows) {
			next = flows[i].At * c
		}
		if running {
			if now+current.key <= next {
				now += current.key
				fct[current.id] = now*perByte - flows[current.id].At
				if running = len(l.queue) > 0; running {
					current = l.queue[0]
					l.queue.pop()
				}
				continue
			}
			current.key -= next - now
		}
		now = next
		e := entry{flows[i].Size, int32(i)}
		i++
		switch {
		case !running:
			current, running = e, true
		case e.key < current.key:
			l.queue.push(current)
			current = e
		default:
			l.queue.push(e)
		}
	}
}

// A group of flows that have been served equally. The key of a flow is its size.
type group struct {
	sent float64
	heap heap
}

// LAS serves the flows that have sent least, evenly.
func (l *Link) LAS(flows []Flow, fct []float64) {
	c, perByte := l.rate, 1/l.rate
	// The last group of the stack has sent least.
	stack := l.stack[:0]
	pop := func() {
		l.spare = append(l.spare, stack[len(stack)-1].heap[:0])
		stack = stack[:len(stack)-1]
	}
	now := 0.
	for i := 0; i < len(flows) || len(stack) > 0; {
		next := math.Inf(1)
		if i < len(flows) {
			next = flows[i].At * c
		}
		if len(stack) > 0 {
			g := &stack[len(stack)-1]
			n := float64(len(g.heap))
			to, joins := g.heap[0].key, false
			if len(stack) > 1 && stack[len(stack)-2].sent < to {
				to, joins = stack[len(stack)-2].sent, true
			}
			if end := now + (to-g.sent)*n; end <= next {
				now, g.sent = end, to
				if joins {
					below := &stack[len(stack)-2]
					if len(g.heap) > len(below.heap) {
						g.heap, below.heap = below.heap, g.heap
					}
					for _, e := range g.heap {
						below.heap.push(e)
					}
					pop()
					continue
				}
				id := g.heap[0].id
				fct[id] = now*perByte - flows[id].At
				g.heap.pop()
				if len(g.heap) == 0 {
					pop()
				}
				continue
			}
			g.sent += (next - now) / n
		}
		now = next
		if len(stack) == 0 || stack[len(stack)-1].sent > 0 {
			var h heap
			if n := len(l.spare); n > 0 {
				h, l.spare = l.spare[n-1], l.spare[:n-1]
			}
			stack = append(stack, group{heap: h})
		}
		stack[len(stack)-1].heap.push(entry{flows[i].Size, int32(i)})
		i++
	}
	l.stack = stack
}

// A Queue is the one that all flows of a link share where nothing orders them.
type Queue struct {
	Buffer float64 // bytes
}

// The common queue's one parameter, fitted to TCP cubic on a link of 200 Mbit/s with a
// buffer of 1,000 packets: how much of the buffer is full while a flow past its first 500 KB
// is active. A window begins with ten segments and doubles each round.
const (
	DefaultBuffer = 1000 * 1514 // bytes: Linux's queue of 1,000 packets
	standing      = .4
	longFrom      = 500e3
	firstWindow   = 14480
)

// Common is fair sharing behind a common queue. While a long flow is active the queue is full,
// and a new flow then takes at least one round through it for each window that it sends, and
// one more. It is a baseline for orientation; its short flows are within a factor of two of
// real ones.
func (l *Link) Common(flows []Flow, q Queue, fct []float64) {
	l.Bands(flows, nil, fct)
	wait := standing * q.Buffer / l.rate
	// A flow is long from the moment it has sent longFrom; these moments are those at which
	// the same flows, cut there, end.
	cut := make([]float64, len(flows))
	l.longSince(flows, cut)
	type span struct{ from, to float64 }
	var spans []span
	for i := range flows {
		if flows[i].Size > longFrom {
			spans = append(spans, span{cut[i], flows[i].At + fct[i]})
		}
	}
	// cut ascends, since fair sharing keeps the order of equal amounts.
	at, until := 0, 0.
	for i := range flows {
		for at < len(spans) && spans[at].from <= flows[i].At {
			until = max(until, spans[at].to)
			at++
		}
		if until > flows[i].At {
			rounds := 1 + math.Log2(1+flows[i].Size/firstWindow)
			fct[i] = max(fct[i], rounds*wait) + wait
		}
	}
}

// longSince writes when each flow has sent longFrom under fair sharing; flows that never do are left alone.
func (l *Link) longSince(flows []Flow, since []float64) {
	c, perByte := l.rate, 1/l.rate
	q := &l.bands[0]
	q.heap, q.time = q.heap[:0], 0
	young := l.young[:0] // key: the virtual time at which it is long; ascending
	head := 0
	now := 0.
	for i := 0; i < len(flows) || len(q.heap) > 0; {
		next := math.Inf(1)
		if i < len(flows) {
			next = flows[i].At * c
		}
		if n := float64(len(q.heap)); n > 0 {
			to := q.heap[0].key
			long := head < len(young) && young[head].key < to
			if long {
				to = young[head].key
			}
			if end := now + (to-q.time)*n; end <= next {
				now, q.time = end, to
				if long {
					since[young[head].id] = now * perByte
					head++
				} else {
					q.heap.pop()
				}
				continue
			}
			q.time += (next - now) / n
		}
		now = next
		size := flows[i].Size
		if len(q.heap) == 0 {
			q.time, young, head = 0, young[:0], 0
		}
		q.heap.push(entry{q.time + size, int32(i)})
		if size > longFrom {
			young = append(young, entry{q.time + longFrom, int32(i)})
		}
		i++
	}
	l.young = young
}
