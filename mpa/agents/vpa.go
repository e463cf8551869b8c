package agents

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/guard"
)

// VPAConfig has the settings of the vertical agent.
type VPAConfig struct {
	// Percentiles of usage, 0 … 1: the target, and the range within which a request stays.
	Target, Lower, Upper float64
	// Margin is added to usage, as a share.
	Margin float64
	// HalfLife of a sample's weight.
	HalfLife time.Duration
	// PeakWindow is the time for which one peak of memory counts.
	PeakWindow time.Duration
	// A container that ran out of memory gets more: by a factor or by an amount in bytes,
	// whichever is larger.
	BumpFactor float64
	BumpBytes  int64
	// Least is the smallest pod; its containers share it.
	Least mpa.Resources
	// Settled is the time after a change from which on a difference of Significant, as a
	// share, suffices for the next.
	Settled     time.Duration
	Significant float64
	MaxAge      time.Duration
}

// DefaultVPA returns the settings of VPA 1.8.
func DefaultVPA() VPAConfig {
	return VPAConfig{
		Target: .9, Lower: .5, Upper: .95, Margin: .15,
		HalfLife: 24 * time.Hour, PeakWindow: 24 * time.Hour,
		BumpFactor: 1.2, BumpBytes: 100 << 20,
		Least:   mpa.Resources{CPU: 25, Memory: 250 << 20},
		Settled: 12 * time.Hour, Significant: .1, MaxAge: 2 * time.Minute,
	}
}

// VPA recommends requests as the Vertical Pod Autoscaler 1.8 does: percentiles of
// decaying histograms of cpu usage and of memory peaks, with a margin, and a range
// that narrows as confidence grows. Unlike there, a container that ran out of memory counts for
// its size however many pods did not: within PeakWindow the request does not fall below its bump.
type VPA struct {
	cfg        VPAConfig
	target     mpa.Target
	containers []usageHistory
	pods       map[string][]podMemory // by name, in the order of the target's containers
	changed    time.Time              // of the last change of requests that was seen
	requests   []mpa.Resources
}

// usageHistory is the usage of one container over all pods.
type usageHistory struct {
	cpu, memory *histogram
	first, last time.Time // of the cpu samples
	samples     int
	needed      mpa.Peaks // that a container had to get after a kill, in bytes
}

// podMemory follows the peaks of memory of one container of one pod, and which samples
// have been added.
type podMemory struct {
	cpu, memory time.Time // of the last samples
	windowEnd   time.Time
	peak, oom   int64
	killed      time.Time
}

// NewVPA returns a vertical agent without memory.
func NewVPA(t mpa.Target, cfg VPAConfig) *VPA {
	v := &VPA{cfg: cfg, target: t, pods: map[string][]podMemory{}}
	for range t.Containers {
		v.containers = append(v.containers, usageHistory{
			cpu:    newHistogram(.01, 1000, 1.05, cfg.HalfLife),
			memory: newHistogram(1e7, 1e12, 1.05, cfg.HalfLife),
		})
	}
	return v
}

// sampleWeight is the weight of a cpu sample.
const sampleWeight = .1

// Recommend implements [mpa.Agent].
func (v *VPA) Recommend(o *mpa.Observation) mpa.Recommendation {
	v.Observe(o)
	requests := o.Requests(&v.target)
	if requests == nil {
		return noOpinion("vpa", "no pod to tell the present requests from")
	}
	if !slices.Equal(requests, v.requests) {
		v.requests, v.changed = requests, o.Time
	}
	wanted := make([]mpa.Resources, len(requests))
	reason := ""
	known := false
	for i, c := range v.target.Containers {
		b, ok := v.Estimate(i)
		if !ok {
			continue
		}
		known, b = true, v.afterKills(i, b)
		settled := !o.Time.Before(v.changed.Add(v.cfg.Settled))
		wanted[i] = requests[i]
		if c.CPU && v.outside(requests[i].CPU, b.Lower.CPU, b.Target.CPU, b.Upper.CPU, settled) {
			wanted[i].CPU = b.Target.CPU
			reason = fmt.Sprintf("%s: cpu %dm is outside %dm … %dm", c.Name, requests[i].CPU, b.Lower.CPU, b.Upper.CPU)
		}
		if c.Memory && v.outside(requests[i].Memory, b.Lower.Memory, b.Target.Memory, b.Upper.Memory, settled) {
			wanted[i].Memory = b.Target.Memory
			reason = fmt.Sprintf("%s: memory %dMi is outside %dMi … %dMi", c.Name, requests[i].Memory>>20, b.Lower.Memory>>20, b.Upper.Memory>>20)
		}
	}
	switch {
	case !known:
		return noOpinion("vpa", "no usage was seen yet")
	case reason == "":
		reason = "requests are within their ranges"
	}
	return mpa.Recommendation{Containers: wanted, Source: "vpa", Reason: reason}
}

// outside reports whether a request should become the target.
func (v *VPA) outside(now, lower, target, upper int64, settled bool) bool {
	if now < lower || now > upper {
		return true
	}
	return settled && now > 0 && math.Abs(float64(target-now))/float64(now) >= v.cfg.Significant
}

// An Estimate is the size that a container should have, and the range within which its
// requests stay.
type Estimate struct{ Lower, Target, Upper mpa.Resources }

// Estimate returns the size that container i of the target should have; ok is false
// without any usage.
func (v *VPA) Estimate(i int) (e Estimate, ok bool) {
	u := &v.containers[i]
	if u.cpu.empty() && u.memory.empty() {
		return e, false
	}
	// confidence is the length of the history in days, as if sampled once a minute.
	confidence := min(float64(u.last.Sub(u.first))/float64(day), float64(u.samples)/day.Minutes())
	share := 1 / float64(len(v.target.Containers))
	least := mpa.Resources{CPU: mpa.Scale(v.cfg.Least.CPU, share), Memory: mpa.Scale(v.cfg.Least.Memory, share)}
	at := func(percentile, multiplier, exponent float64) mpa.Resources {
		r := mpa.Resources{
			CPU:    mpa.Amount(u.cpu.percentile(percentile) * 1000),
			Memory: mpa.Amount(u.memory.percentile(percentile)),
		}
		r = r.Add(mpa.Resources{CPU: mpa.Scale(r.CPU, v.cfg.Margin), Memory: mpa.Scale(r.Memory, v.cfg.Margin)})
		if multiplier != 0 {
			f := math.Pow(1+multiplier/confidence, exponent)
			r = mpa.Resources{CPU: mpa.Scale(r.CPU, f), Memory: mpa.Scale(r.Memory, f)}
		}
		return r.Max(least)
	}
	return Estimate{
		Lower:  at(v.cfg.Lower, .001, -2),
		Target: at(v.cfg.Target, 0, 0),
		Upper:  at(v.cfg.Upper, 1, 1),
	}, true
}

// afterKills raises an estimate of container i to the need that a kill proved: among the
// samples of many pods those of one reach no percentile.
func (v *VPA) afterKills(i int, e Estimate) Estimate {
	needed := mpa.Resources{Memory: mpa.Scale(v.containers[i].needed.Max(), 1+v.cfg.Margin)}
	return Estimate{e.Lower.Max(needed), e.Target.Max(needed), e.Upper.Max(needed)}
}

// Observe adds the usage and the kills of an observation.
func (v *VPA) Observe(o *mpa.Observation) {
	for _, p := range o.Pods {
		follow := v.pods[p.Name]
		first := follow == nil
		if first {
			follow = make([]podMemory, len(v.target.Containers))
			v.pods[p.Name] = follow
		}
		for _, c := range p.Containers {
			for i, spec := range v.target.Containers {
				if spec.Name == c.Name {
					if first && c.Killed.Before(o.Time.Add(-v.cfg.MaxAge)) {
						follow[i].killed = c.Killed // its requests may already be larger for it
					}
					v.sample(o.Time, i, &follow[i], &c)
				}
			}
		}
	}
	if len(v.pods) > len(o.Pods) {
		v.forget(o.Pods)
	}
	for i := range v.containers {
		v.containers[i].needed.Add(o.Time, 0, v.cfg.PeakWindow) // forgets
	}
}

// forget drops the pods that are not in a list.
func (v *VPA) forget(pods []mpa.Pod) {
	alive := map[string]bool{}
	for i := range pods {
		alive[pods[i].Name] = true
	}
	for name := range v.pods {
		if !alive[name] {
			delete(v.pods, name)
		}
	}
}

// sample adds the new samples of a container of a pod.
func (v *VPA) sample(now time.Time, i int, f *podMemory, c *mpa.Container) {
	u := &v.containers[i]
	if c.Killed.After(f.killed) {
		f.killed = c.Killed
		used := max(c.Request.Memory, f.peak)
		needed := max(used+v.cfg.BumpBytes, mpa.Scale(used, v.cfg.BumpFactor))
		v.peak(u, f, needed, c.Killed, true)
		u.needed.Add(now, needed, v.cfg.PeakWindow)
	}
	if !c.Usage.Known(now, v.cfg.MaxAge) {
		return
	}
	start := c.Usage.Time.Add(-c.Usage.Window)
	if c.Usage.CPU >= 0 && start.After(f.cpu) {
		f.cpu = start
		u.cpu.add(float64(c.Usage.CPU)/1000, sampleWeight, start)
		if u.samples == 0 || start.Before(u.first) {
			u.first = start
		}
		if start.After(u.last) {
			u.last = start
		}
		u.samples++
	}
	if c.Usage.Memory >= 0 && start.After(f.memory) {
		v.peak(u, f, c.Usage.Memory, start, false)
	}
}

// peak keeps the largest memory of a window in the histogram.
func (v *VPA) peak(u *usageHistory, f *podMemory, memory int64, t time.Time, oom bool) {
	f.memory = t
	if f.windowEnd.IsZero() {
		f.windowEnd = t
	}
	old := max(f.peak, f.oom)
	switch {
	case !t.Before(f.windowEnd):
		f.windowEnd = f.windowEnd.Add(t.Sub(f.windowEnd).Truncate(v.cfg.PeakWindow) + v.cfg.PeakWindow)
		f.peak, f.oom = 0, 0
	case old != 0 && memory > old:
		u.memory.remove(float64(old), 1, f.windowEnd)
	default:
		return
	}
	u.memory.add(float64(memory), 1, f.windowEnd)
	if oom {
		f.oom = memory
	} else {
		f.peak = memory
	}
}

// Shift implements [mpa.Shifter].
func (v *VPA) Shift(d time.Duration) {
	v.changed = guard.Moved(v.changed, d)
	for i := range v.containers {
		u := &v.containers[i]
		u.first, u.last = guard.Moved(u.first, d), guard.Moved(u.last, d)
		for j := range u.needed {
			u.needed[j].Time = guard.Moved(u.needed[j].Time, d)
		}
		u.cpu.reference, u.memory.reference = guard.Moved(u.cpu.reference, d), guard.Moved(u.memory.reference, d)
	}
	for _, follow := range v.pods {
		for i := range follow {
			f := &follow[i]
			// Kills are compared with the times in pods, which do not move.
			f.cpu, f.memory, f.windowEnd = guard.Moved(f.cpu, d), guard.Moved(f.memory, d), guard.Moved(f.windowEnd, d)
		}
	}
}

type vpaJSON struct {
	Containers []usageJSON          `json:"containers"`
	Pods       map[string][]podJSON `json:"pods,omitempty"`
	Changed    time.Time            `json:"changed,omitzero"`
	Requests   []mpa.Resources      `json:"requests,omitempty"`
}

type usageJSON struct {
	CPU     *histogram `json:"cpu"`
	Memory  *histogram `json:"memory"`
	First   time.Time  `json:"first,omitzero"`
	Last    time.Time  `json:"last,omitzero"`
	Samples int        `json:"samples"`
	Needed  mpa.Peaks  `json:"needed,omitempty"`
}

type podJSON struct {
	CPU       time.Time `json:"cpu,omitzero"`
	Memory    time.Time `json:"memory,omitzero"`
	WindowEnd time.Time `json:"windowEnd,omitzero"`
	Peak      int64     `json:"peak,omitempty"`
	OOM       int64     `json:"oom,omitempty"`
	Killed    time.Time `json:"killed,omitzero"`
}

// MarshalJSON implements [mpa.Stateful].
func (v *VPA) MarshalJSON() ([]byte, error) {
	j := vpaJSON{Pods: map[string][]podJSON{}, Changed: v.changed, Requests: v.requests}
	for _, u := range v.containers {
		j.Containers = append(j.Containers, usageJSON{u.cpu, u.memory, u.first, u.last, u.samples, u.needed})
	}
	for name, follow := range v.pods {
		list := make([]podJSON, len(follow))
		for i, f := range follow {
			list[i] = podJSON{f.cpu, f.memory, f.windowEnd, f.peak, f.oom, f.killed}
		}
		j.Pods[name] = list
	}
	return json.Marshal(j)
}

// UnmarshalJSON implements [mpa.Stateful].
func (v *VPA) UnmarshalJSON(data []byte) error {
	var j vpaJSON
	for _, u := range v.containers {
		j.Containers = append(j.Containers, usageJSON{CPU: u.cpu, Memory: u.memory})
	}
	want := len(j.Containers)
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	if len(j.Containers) != want {
		return fmt.Errorf("vpa: memory of %d containers, want %d", len(j.Containers), want)
	}
	for i, u := range j.Containers {
		if u.CPU == nil || u.Memory == nil {
			return fmt.Errorf("vpa: containers[%d] lacks cpu or memory", i)
		}
		v.containers[i] = usageHistory{u.CPU, u.Memory, u.First, u.Last, u.Samples, u.Needed}
	}
	for name, list := range j.Pods {
		if len(list) != want {
			return fmt.Errorf("vpa: pod %s has %d containers, want %d", name, len(list), want)
		}
		follow := make([]podMemory, want)
		for i, f := range list {
			follow[i] = podMemory{f.CPU, f.Memory, f.WindowEnd, f.Peak, f.OOM, f.Killed}
		}
		v.pods[name] = follow
	}
	v.changed, v.requests = j.Changed, j.Requests
	return nil
}
