package sim

import "github.com/sigma-scheduler/sigma/flow"

// A connection carries flows, its messages. Number 0 has those without a common connection.
type connection struct {
	sent    float64 // bytes since the last silence
	last    float64 // when its last flow ended
	running int
}

// connect forgets all connections. It returns room for the bytes before each flow, or nil where no connection or no band is.
func (l *Link) connect(flows []Flow, thresholds flow.Thresholds) (before []float64) {
	most := uint16(0)
	for i := range flows {
		most = max(most, flows[i].Connection)
	}
	if most == 0 || len(thresholds) == 0 {
		return nil
	}
	l.conns = make([]connection, int(most)+1)
	return make([]float64, len(flows))
}

// begin takes a flow, and returns the bytes that count before it. Between flows that run at once there is no silence.
func (c *connection) begin(f *Flow, gap float64) (before float64) {
	if f.Connection == 0 || c.running == 0 && f.At-c.last > gap {
		c.sent = 0
	}
	before = c.sent
	c.sent += f.Size
	c.running++
	return before
}

func (c *connection) end(at float64) {
	c.last = at
	c.running--
}
