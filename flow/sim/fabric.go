package sim

import (
	"sync"
	"sync/atomic"
)

// A Fabric is a set of hosts whose ports, one out and one in, are the only limits.
type Fabric struct {
	Hosts int
	Rate  float64 // bits per second of a port
}

// A Discipline runs flows through a link, such as [Link.SRPT]. It must depend on nothing but
// the flows.
type Discipline func(l *Link, flows []Flow, fct []float64)

// Decomposed takes each port alone: the time of a flow is its size at the full rate plus the delays
// of both its ports. It is exact if a flow meets others at one port only, and too long if a port has
// more to send than it can ([BusiestPort]): flows that wait there do not make way elsewhere.
func (f Fabric) Decomposed(flows []Flow, discipline Discipline, workers int, fct []float64) {
	// The flows of each port are put together, so that everything is read in order.
	ports := 2 * f.Hosts
	start := make([]int, ports+1)
	for i := range flows {
		start[int(flows[i].Src)+1]++
		start[f.Hosts+int(flows[i].Dst)+1]++
	}
	for p := range ports {
		start[p+1] += start[p]
	}
	sorted, times := make([]Flow, 2*len(flows)), make([]float64, 2*len(flows))
	at := append([]int(nil), start[:ports]...)
	for i := range flows {
		for _, p := range [2]int{int(flows[i].Src), f.Hosts + int(flows[i].Dst)} {
			sorted[at[p]] = flows[i]
			at[p]++
		}
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range max(1, min(workers, ports)) {
		wg.Go(func() {
			link := NewLink(f.Rate)
			for {
				p := int(next.Add(1)) - 1
				if p >= ports {
					return
				}
				discipline(link, sorted[start[p]:start[p+1]], times[start[p]:start[p+1]])
			}
		})
	}
	wg.Wait()
	copy(at, start[:ports])
	perByte := 8 / f.Rate
	for i := range flows {
		src, dst := int(flows[i].Src), f.Hosts+int(flows[i].Dst)
		// The sum of the delays: (a − x) + (b − x) + x.
		fct[i] = times[at[src]] + times[at[dst]] - flows[i].Size*perByte
		at[src]++
		at[dst]++
	}
}
