package sim

import "time"

const (
	// toldSoon is the time that new pods need, the delay of measurement included; toldLater
	// is that for which a shrink should hold. Both in seconds.
	toldSoon, toldLater = 100, 300
)

// Told returns the largest mean rates of the load in the next minutes, for the agent
// "foresight", a clairvoyant baseline: within the time that new pods need, and within that
// for which a shrink should hold. The agent shows the gain from knowing the future, and is no
// bound.
func (c *Config) Told(now time.Time) (soon, later float64) {
	begin := now.Sub(epoch).Seconds()
	for t := begin; t <= begin+toldLater; {
		rate, until := c.Load.Rate(t)
		if later = max(later, rate); t <= begin+toldSoon {
			soon = max(soon, rate)
		}
		t = until
	}
	return soon, later
}
