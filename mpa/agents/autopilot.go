package agents

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
)

// Autopilot follows the moving-window recommenders of Google's Autopilot
// (Rzadca et al., "Autopilot: workload autoscaling at Google", EuroSys 2020,
// section 3.2): cpu by the 95th percentile of a histogram whose samples lose half of
// their weight in 12 hours, memory by the largest peak of the last day, each with a
// margin; and replicas by the 95th percentile of the whole workload's cpu over the
// last hours.
type Autopilot struct {
	target     mpa.Target
	vpa        *VPA
	load       []timed[float64] // cores of the whole workload
	horizontal *HPA             // for window and rates
}

const (
	autopilotWindow      = time.Hour
	autopilotPercentile  = .95
	autopilotUtilisation = .6
)

// NewAutopilot returns an agent without memory.
func NewAutopilot(t mpa.Target) *Autopilot {
	cfg := DefaultVPA()
	cfg.Target, cfg.Lower, cfg.Upper = 1, .95, 1
	cfg.HalfLife, cfg.Margin, cfg.Settled = 12*time.Hour, .2, time.Hour
	return &Autopilot{target: t, vpa: NewVPA(memoryOf(t), cfg), horizontal: NewHPA(t, DefaultHPA())}
}

// Recommend implements [mpa.Agent].
func (a *Autopilot) Recommend(o *mpa.Observation) mpa.Recommendation {
	r := a.vpa.Recommend(o)
	r.Source = "autopilot"
	cores, request, ok := workloadCPU(o, a.vpa.cfg.MaxAge)
	if !ok || request == 0 {
		r.Reason = "cpu usage is missing or stale; " + r.Reason
		return r
	}
	a.load = append(since(a.load, o.Time.Add(-autopilotWindow)), timed[float64]{o.Time, cores})
	need := percentileOf(a.load, autopilotPercentile)
	n := ceil(need / (autopilotUtilisation * float64(request) / 1000))
	// A sudden rise counts at once.
	n = max(n, ceil(cores/(float64(request)/1000)))
	n = a.horizontal.limit(o, a.horizontal.stabilise(o, max(1, n)))
	r.Replicas = n
	r.Reason = fmt.Sprintf("%.3g cores at the %g %% percentile of an hour; %s", need, 100*autopilotPercentile, r.Reason)
	return r
}

// workloadCPU returns the cpu usage of all live pods in cores and the cpu request of one
// pod in millicores. Pods without a measured usage count as the mean of the others.
func workloadCPU(o *mpa.Observation, maxAge time.Duration) (cores float64, request int64, ok bool) {
	running, known := 0, 0
	for _, p := range o.Live() {
		if p.Phase != mpa.Running {
			continue
		}
		running++
		var usage, asked int64
		all := len(p.Containers) > 0
		for _, c := range p.Containers {
			all = all && c.Usage.Known(o.Time, maxAge)
			usage += c.Usage.CPU
			asked += c.Request.CPU
		}
		request = max(request, asked)
		if all {
			known++
			cores += float64(usage) / 1000
		}
	}
	if known == 0 {
		return 0, request, false
	}
	return cores * float64(running) / float64(known), request, true
}

func percentileOf(list []timed[float64], p float64) float64 {
	values := make([]float64, len(list))
	for i, v := range list {
		values[i] = v.value
	}
	return quantile(values, p)
}

// quantile returns the smallest value that a share p of the values do not exceed.
func quantile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	i := int(math.Ceil(p*float64(len(values)))) - 1
	return values[min(len(values)-1, max(0, i))]
}

// Shift implements [mpa.Shifter].
func (a *Autopilot) Shift(d time.Duration) {
	a.vpa.Shift(d)
	a.horizontal.Shift(d)
	shiftAll(a.load, d)
}

type autopilotJSON struct {
	VPA  *VPA             `json:"vpa"`
	HPA  *HPA             `json:"hpa"`
	Load []timed[float64] `json:"load,omitempty"`
}

// MarshalJSON implements [mpa.Stateful].
func (a *Autopilot) MarshalJSON() ([]byte, error) {
	return json.Marshal(autopilotJSON{a.vpa, a.horizontal, a.load})
}

// UnmarshalJSON implements [mpa.Stateful].
func (a *Autopilot) UnmarshalJSON(data []byte) error {
	j := autopilotJSON{VPA: a.vpa, HPA: a.horizontal}
	err := json.Unmarshal(data, &j)
	a.load = j.Load
	return err
}
