package mpa

import "time"

// Shift implements [Shifter].
func (f *Fallback) Shift(d time.Duration) {
	f.spoke = moved(f.spoke, d)
	shift(f.First, d)
	shift(f.Second, d)
}

// Shift implements [Shifter].
func (p *Pair) Shift(d time.Duration) {
	shift(p.horizontal, d)
	shift(p.vertical, d)
}

// Shift implements [Shifter].
func (h *HPA) Shift(d time.Duration) {
	h.seen = moved(h.seen, d)
	shiftAll(h.wanted, d)
	shiftAll(h.changes, d)
}

// Shift implements [Shifter].
func (v *VPA) Shift(d time.Duration) {
	v.changed = moved(v.changed, d)
	for i := range v.containers {
		u := &v.containers[i]
		u.first, u.last = moved(u.first, d), moved(u.last, d)
		u.cpu.reference, u.memory.reference = moved(u.cpu.reference, d), moved(u.memory.reference, d)
	}
	for _, follow := range v.pods {
		for i := range follow {
			f := &follow[i]
			// Kills are told by the pods, so their times stay.
			f.cpu, f.memory, f.windowEnd = moved(f.cpu, d), moved(f.memory, d), moved(f.windowEnd, d)
		}
	}
}

// Shift implements [Shifter].
func (a *Autopilot) Shift(d time.Duration) {
	a.vpa.Shift(d)
	a.horizontal.Shift(d)
	shiftAll(a.load, d)
}

// Shift implements [Shifter]. What is usual stays with its time of day.
func (p *Predictive) Shift(d time.Duration) {
	for _, t := range []*time.Time{&p.turned, &p.until, &p.jumped, &p.begun, &p.changed} {
		*t = moved(*t, d)
	}
	shiftAll(p.demand, d)
	shiftAll(p.work, d)
	shiftAll(p.filled, d)
	for i := range p.resized {
		p.resized[i] = moved(p.resized[i], d)
	}
	for i := range p.memory {
		shiftAll(p.least[i], d)
		for j := range p.memory[i].Peaks {
			p.memory[i].Peaks[j].Time = moved(p.memory[i].Peaks[j].Time, d)
		}
	}
	p.seen, p.slot = nil, -1
}

func shift(a Agent, d time.Duration) {
	if s, ok := a.(Shifter); ok {
		s.Shift(d)
	}
}

// moved is a time that moves by d; none stays none.
func moved(t time.Time, d time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(d)
}

func shiftAll[T any](list []timed[T], d time.Duration) {
	for i := range list {
		list[i].time = moved(list[i].time, d)
	}
}

// Shift implements [Shifter]. The rate is what was asked for, as old as it is.
func (a *RateHPA) Shift(d time.Duration) {
	a.hpa.Shift(d)
	a.next = moved(a.next, d)
}
