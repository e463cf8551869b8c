package agents

import (
	"encoding/json"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
)

// A Pair is a horizontal and a vertical agent on one workload.
type Pair struct {
	horizontal, vertical mpa.Agent
}

// pairUtilisation in percent is the largest of 50, 60, 70 and 80 with which the pair kept
// its SLO in three of four runs of the training scenarios of mpa/sim.
const pairUtilisation = 50

// NewPair returns the good pairing: replicas by cpu, size by memory. The two never use the
// same resource.
func NewPair(t mpa.Target) *Pair {
	return &Pair{horizontal: NewHPA(t, DefaultHPA().At(pairUtilisation)), vertical: NewVPA(memoryOf(t), DefaultVPA())}
}

// NewBadPair returns the pairing that the documentation of the Vertical Pod Autoscaler
// warns of: replicas and requests both by cpu. Growing requests lower the utilisation that
// decides on replicas, and the other way round.
func NewBadPair(t mpa.Target) *Pair {
	return &Pair{horizontal: NewHPA(t, DefaultHPA()), vertical: NewVPA(t, DefaultVPA())}
}

func memoryOf(t mpa.Target) mpa.Target {
	containers := make([]mpa.ContainerSpec, len(t.Containers))
	for i, c := range t.Containers {
		c.CPU = false
		containers[i] = c
	}
	t.Containers = containers
	return t
}

// Recommend implements [mpa.Agent].
func (p *Pair) Recommend(o *mpa.Observation) mpa.Recommendation {
	h, v := p.horizontal.Recommend(o), p.vertical.Recommend(o)
	return mpa.Recommendation{
		Replicas: h.Replicas, Containers: v.Containers, Source: "hpa+vpa",
		Reason: h.Reason + "; " + v.Reason,
	}
}

// Shift implements [mpa.Shifter].
func (p *Pair) Shift(d time.Duration) {
	mpa.Shift(p.horizontal, d)
	mpa.Shift(p.vertical, d)
}

type pairJSON struct {
	Horizontal mpa.Agent `json:"horizontal"`
	Vertical   mpa.Agent `json:"vertical"`
}

// MarshalJSON implements [mpa.Stateful].
func (p *Pair) MarshalJSON() ([]byte, error) { return json.Marshal(pairJSON{p.horizontal, p.vertical}) }

// UnmarshalJSON implements [mpa.Stateful].
func (p *Pair) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &pairJSON{p.horizontal, p.vertical})
}
