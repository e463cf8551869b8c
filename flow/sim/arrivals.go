package sim

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/sigma-scheduler/sigma/flow"
)

// A Flow arrives At a time, after those before it, and has Size bytes, above 0. Hint is the band of its estimated
// size, from 0; 0 = no estimate. Src and Dst are hosts of a fabric. Flows of one Connection are its messages; if it
// is 0, the flow has a connection of its own.
type Flow struct {
	At, Size float64
	Src, Dst uint16
	// Connection and Hint fill the padding of the struct.
	Connection uint16
	Hint       uint8
}

// A Traffic makes Poisson arrivals.
type Traffic struct {
	Sizes *flow.Sizes
	Load  float64 // share of the rate of every link, payload alone
	Rate  float64 // bits per second of a link
	Hosts int     // of a fabric; every host sends to every other as often. 0 = one link
	// Connections of the link carry the flows, each as often. 0 = one of its own for each flow.
	Connections uint16
}

// streams of a seed: the draws of one never depend on the others.
const (
	streamTimes = iota
	streamSizes
	streamPairs
	streamHints
	streamWrong
	streamConnections
)

// Generate returns the first n arrivals of a seed. Sizes are at least one byte.
func (t *Traffic) Generate(n int, seed uint64) []Flow {
	times, sizes := rand.New(rand.NewPCG(seed, streamTimes)), rand.New(rand.NewPCG(seed, streamSizes))
	gap := 8 * t.Sizes.Mean() / (t.Load * t.Rate)
	if t.Hosts > 0 {
		gap /= float64(t.Hosts)
	}
	flows := make([]Flow, n)
	at := 0.
	for i := range flows {
		at += gap * times.ExpFloat64()
		flows[i] = Flow{At: at, Size: max(1, t.Sizes.Quantile(sizes.Float64()))}
	}
	if t.Connections > 0 {
		connections := rand.New(rand.NewPCG(seed, streamConnections))
		for i := range flows {
			flows[i].Connection = uint16(1 + connections.IntN(int(t.Connections)))
		}
	}
	if t.Hosts > 0 {
		pairs := rand.New(rand.NewPCG(seed, streamPairs))
		for i := range flows {
			src, dst := pairs.IntN(t.Hosts), pairs.IntN(t.Hosts-1)
			if dst >= src {
				dst++
			}
			flows[i].Src, flows[i].Dst = uint16(src), uint16(dst)
		}
	}
	return flows
}

// Hints are the errors of estimated sizes: a factor exp(Error·z) with z normal, and for the
// share Wrong of the flows, the estimate is that of another flow.
type Hints struct{ Error, Wrong float64 }

// Validate returns the error of hints.
func (h Hints) Validate() error {
	if !(h.Error >= 0 && h.Error <= 10) {
		return fmt.Errorf("error %v of hints: want 0 to 10, the deviation of the log of the size", h.Error)
	}
	if !(h.Wrong >= 0 && h.Wrong <= 1) {
		return fmt.Errorf("share %v of wrong hints: want 0 to 1", h.Wrong)
	}
	return nil
}

// Estimates returns an estimate in bytes of the size of each flow.
func (h Hints) Estimates(flows []Flow, seed uint64) []float64 {
	rng, wrong := rand.New(rand.NewPCG(seed, streamHints)), rand.New(rand.NewPCG(seed, streamWrong))
	estimates := make([]float64, len(flows))
	for i := range flows {
		size := flows[i].Size
		if wrong.Float64() < h.Wrong {
			size = flows[wrong.IntN(len(flows))].Size
		}
		estimates[i] = size * math.Exp(h.Error*rng.NormFloat64())
	}
	return estimates
}

// Hint sets the hints of the flows to the bands of their estimates.
func Hint(flows []Flow, estimates []float64, t flow.Thresholds) {
	for i, e := range estimates {
		band := 0
		for band < len(t) && e > float64(t[band]) {
			band++
		}
		flows[i].Hint = uint8(band)
	}
}
