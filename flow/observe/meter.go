package observe

import "time"

// The load is that of the last ten minutes: a minute is too short for a few large flows.
const meterSpan = 10 * time.Minute

// A meter turns a counter of bytes into a rate.
type meter struct{ samples []sample }

type sample struct {
	at   time.Time
	sent uint64
}

// add takes the counter. A lower value is of another counter: the samples before are dropped.
func (m *meter) add(now time.Time, sent uint64) {
	if n := len(m.samples); n > 0 && (sent < m.samples[n-1].sent || !now.After(m.samples[n-1].at)) {
		m.samples = m.samples[:0]
	}
	m.samples = append(m.samples, sample{now, sent})
	// One that is older than the span is kept: the span begins after it.
	for len(m.samples) > 2 && now.Sub(m.samples[1].at) >= meterSpan {
		m.samples = m.samples[1:]
	}
}

// rate is bits per second, and over how long; ok is false before there are two samples.
func (m *meter) rate() (bits float64, over time.Duration, ok bool) {
	if len(m.samples) < 2 {
		return 0, 0, false
	}
	first, last := m.samples[0], m.samples[len(m.samples)-1]
	over = last.at.Sub(first.at)
	return float64(last.sent-first.sent) * 8 / over.Seconds(), over, true
}
