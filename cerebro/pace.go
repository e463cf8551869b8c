package cerebro

import (
	"math"
	"slices"
)

// A Pace sets the duration of moves and their most per hour.
type Pace struct {
	// Takes is the seconds that a move takes, from the eviction until the item runs on its new
	// machine. The moves of a chain, or of a tick, are carried out one after the other. All
	// places are reserved when the first begins; the amounts that an item leaves are free then.
	// A machine that a tick empties counts as in use until the last move from it is over.
	Takes float64
	// PerHour is the most moves for each hour since the first event; 0 = no limit. Unspent
	// moves lapse after a day, but for one move.
	PerHour float64
}

// lapse is the number of hours for which an unspent move may still be made.
const lapse = 24

// mostSaved is the most moves that may be left of an allowance.
func mostSaved(perHour float64) float64 { return max(1, lapse*perHour) }

// An allowance is the number of moves that may be made by now.
type allowance struct {
	saved float64
	since float64 // time of the first event, or of the last call
}

// left brings the allowance to a time.
func (a *allowance) left(now, perHour float64) float64 {
	if perHour == 0 {
		return math.Inf(1)
	}
	a.saved = min(a.saved+(now-a.since)/3600*perHour, mostSaved(perHour))
	a.since = now
	return math.Floor(a.saved + 1e-9)
}

func (a *allowance) spend(moves int) { a.saved -= float64(moves) }

// reaches is the time at which so many moves are available, if none is made.
func (a *allowance) reaches(moves, perHour float64) float64 {
	if moves > mostSaved(perHour) {
		return math.Inf(1)
	}
	return a.since + (moves-a.saved)/perHour*3600
}

// An away item has no running copy between two times.
type away struct {
	item       int32
	from, till float64
}

// A leaving machine is empty in the plan, but not yet.
type leaving struct {
	machine int32
	till    float64
}

// send notes that an item is away between two times; nothing moves it again meanwhile.
func (r *Replayer) send(item int32, from, till float64) {
	if m := r.run.mover; till > from {
		m.away = append(m.away, away{item, from, till})
		m.model.Hold(m.slot[item], true)
	}
}

// returned accounts for the items that are back by now, or for one that leaves (-1 = no item).
func (r *Replayer) returned(now float64, item int32) {
	m := r.run.mover
	if m == nil || len(m.away) == 0 {
		return
	}
	back := m.back[:0]
	m.away = slices.DeleteFunc(m.away, func(a away) bool {
		if a.till > now && a.item != item {
			return false
		}
		till := min(a.till, now)
		r.run.out.AwaySeconds += max(0, till-max(a.from, r.run.tally.from))
		back = append(back, a.item)
		return true
	})
	m.back = back
	for _, item := range back {
		if !slices.ContainsFunc(m.away, func(a away) bool { return a.item == item }) {
			m.model.Hold(m.slot[item], false)
		}
	}
}

// allReturned accounts for all items, at the end.
func (r *Replayer) allReturned() {
	for m := r.run.mover; m != nil && len(m.away) > 0; {
		r.returned(r.run.tally.last, m.away[0].item)
	}
}

// vacate notes that an item is on its way from a machine until a time.
func (m *mover) vacate(machine int32, till float64) {
	for k := range m.leaving {
		if m.leaving[k].machine == machine {
			m.leaving[k].till = till
			return
		}
	}
	m.leaving = append(m.leaving, leaving{machine, till})
}

// unfinished calls f for each machine that is empty but for items on their way, with the seconds of a
// span that it still counts.
func (m *mover) unfinished(r *Replayer, from, now float64, f func(machine int32, seconds float64)) {
	if m == nil {
		return
	}
	m.leaving = slices.DeleteFunc(m.leaving, func(l leaving) bool {
		if seconds := min(now, l.till) - from; seconds > 0 && r.state.Items(l.machine) == 0 {
			f(l.machine, seconds)
		}
		return l.till <= now
	})
}
