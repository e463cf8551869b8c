package mpa

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Predictive is a horizontal agent that expects each day to be like those
// before: it learns the workload's cpu by the time of day and asks for the replicas
// that the next minutes will need, or those that are needed now, whichever is more.
// Memory is sized as [VPA] does.
type Predictive struct {
	target     Target
	vertical   *VPA
	horizontal *HPA
	// usual is the cpu in cores by slot of the day: a mean that forgets, and its
	// mean deviation. A slot that was never seen is NaN.
	usual, scatter []float64
	slot           int // that seen is of; −1 = none
	seen           []float64
}

const (
	predictSlot        = 5 * time.Minute
	predictSlots       = int(day / predictSlot)
	predictHorizon     = 10 * time.Minute // ahead of which replicas are asked for
	predictUtilisation = .7
	predictForget      = .5 // weight of the newest day
)

// NewPredictive is an agent that has seen nothing.
func NewPredictive(t Target) *Predictive {
	p := &Predictive{
		target: t, vertical: NewVPA(memoryOf(t), DefaultVPA()), horizontal: NewHPA(t, DefaultHPA()), slot: -1,
		usual: make([]float64, predictSlots), scatter: make([]float64, predictSlots),
	}
	for i := range p.usual {
		p.usual[i] = math.NaN()
	}
	return p
}

// Recommend implements [Agent].
func (p *Predictive) Recommend(o *Observation) Recommendation {
	r := p.vertical.Recommend(o)
	r.Source = "predictive"
	now := p.horizontal.Recommend(o)
	cores, request, ok := workloadCPU(o, p.horizontal.cfg.MaxAge)
	if !ok || request == 0 || now.Replicas == 0 {
		return noOpinion("predictive", "%s", now.Reason)
	}
	p.learn(o.Time, cores)
	r.Replicas = now.Replicas
	if ahead := p.ahead(o.Time); ahead > 0 {
		n := p.target.Replicas.Clamp(ceil(ahead / (predictUtilisation * float64(request) / 1000)))
		if n > r.Replicas {
			r.Replicas = n
			now.Reason = fmt.Sprintf("%.3g cores expected within %v", ahead, predictHorizon)
		}
	}
	r.Reason = now.Reason + "; " + r.Reason
	return r
}

func slotOf(t time.Time) int {
	return int(t.Sub(t.Truncate(day)) / predictSlot)
}

// learn closes a slot when the next begins.
func (p *Predictive) learn(now time.Time, cores float64) {
	slot := slotOf(now)
	if slot != p.slot && len(p.seen) > 0 {
		high := slices.Max(p.seen)
		if math.IsNaN(p.usual[p.slot]) {
			p.usual[p.slot] = high
		} else {
			p.scatter[p.slot] += predictForget * (math.Abs(high-p.usual[p.slot]) - p.scatter[p.slot])
			p.usual[p.slot] += predictForget * (high - p.usual[p.slot])
		}
		p.seen = p.seen[:0]
	}
	p.slot = slot
	p.seen = append(p.seen, cores)
}

// ahead is the most that the slots up to the horizon usually need; 0 = not known.
func (p *Predictive) ahead(now time.Time) float64 {
	most := 0.0
	for d := time.Duration(0); d <= predictHorizon; d += predictSlot {
		i := slotOf(now.Add(d))
		if !math.IsNaN(p.usual[i]) {
			most = max(most, p.usual[i]+p.scatter[i])
		}
	}
	return most
}
