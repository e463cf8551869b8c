package capacity

import "fmt"

// An Interval is an estimate and the 95 % interval around it.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// around returns the interval of a value with a relative standard error.
func around(value, relative float64) Interval {
	return Interval{value, value * max(0, 1-1.96*relative), value * (1 + 1.96*relative)}
}

// Capacity is the load that one pod can serve.
type Capacity struct {
	Limit            int      `json:"limit"`            // requests at once
	Rate             Interval `json:"rate"`             // answers a second at the limit
	Inside           Interval `json:"inside"`           // mean number inside at that rate
	Demand           Interval `json:"demand"`           // core-seconds a request alone
	Wait             Interval `json:"wait"`             // seconds a request waits for others
	Contention       Interval `json:"contention"`       // share of the demand that each other request adds
	MemoryPerRequest Interval `json:"memoryPerRequest"` // bytes, at most; 0 = unknown
	Cores            float64  `json:"cores"`            // the quota that this holds for; 0 = unknown
	Reason           string   `json:"reason"`
}

// Network is the closed network with the estimated demand, contention and wait.
func (c *Capacity) Network() Network {
	return Network{Demand: c.Demand.Value, Contention: c.Contention.Value, Wait: c.Wait.Value, Cores: c.Cores}
}

// Size returns the capacity of a pod with other cores by the same demand and wait, at its
// best limit up to most. It fails if demand or cores are unknown.
func (c *Capacity) Size(cores float64, most int) (Capacity, error) {
	if !(c.Demand.Value > 0) || !(c.Cores > 0) {
		return Capacity{}, fmt.Errorf("what another size gives is not known: the cpu of the windows is missing, or its quota")
	}
	m := c.Network()
	m.Cores = cores
	limit, _ := m.Peak(most, goodShare)
	scale := m.Throughput(limit)
	out := *c
	relative := 0.0
	if c.Rate.Value > 0 {
		relative = (c.Rate.High - c.Rate.Value) / c.Rate.Value / 1.96
	}
	out.Limit, out.Rate, out.Inside, out.Cores = limit, around(scale, relative), around(float64(limit), 0), cores
	out.Reason = fmt.Sprintf("the law for %.4g cores", cores)
	return out, nil
}

// goodShare of the best throughput is enough for a limit: a smaller limit takes less
// memory, and leaves later requests to other pods.
const goodShare = .97
