package cerebro

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/plan/defrag"
)

// A Repair lets an item that fits on no machine in use be placed by a chain of moves of
// others.
type Repair struct {
	// Budget is the most moves for each item placed so far.
	Budget float64
	// Chain is the most moves for one item.
	Chain int
	Pace
}

// A Rebalance empties machines from time to time.
type Rebalance struct {
	Every float64 // seconds
	// Moves is the most moves at a time, as a share of the placed items.
	Moves float64
	Pace
}

// A mover keeps the model that finds moves in step with the replay.
type mover struct {
	model *defrag.Model
	slot  []int32 // per item: its number in the model; -1 = not in the model
	item  []int32 // per number in the model
	fits  []int32

	repaired  int     // moves of repair alone
	first     float64 // time of the first event
	repairs   allowance
	drains    allowance
	busy      float64 // until then the moves of the last tick are carried out
	tried     int     // most moves when nothing was found
	away      []away
	back      []int32 // scratch of returned
	leaving   []leaving
	ticks     float64 // of rebalancing that are over
	unchanged uint64  // changes of the model when nothing was found; 0 = something was
}

// beginMoves prepares the model, if items may be moved. A follower decides on the machines itself.
func (r *Replayer) beginMoves() {
	u := &r.run
	if u.opt.Repair == nil && u.opt.Rebalance == nil || u.follower != nil {
		return
	}
	u.mover = &mover{model: defrag.NewModel(r.trace.Instance, u.opt.Seed+uint64(u.opt.Order)<<32), slot: make([]int32, len(r.where))}
	for i := range u.mover.slot {
		u.mover.slot[i] = -1
	}
}

// came reports to the model an item that was placed.
func (m *mover) came(r *Replayer, item, app, at int32) {
	if m == nil {
		return
	}
	line, index := r.state.Position(at)
	slot, err := m.model.Add(app, line, index, r.devices[item])
	if err != nil {
		panic("cerebro: the model of the moves is not the replay: " + err.Error())
	}
	m.note(item, slot)
}

// fix reports to the model an item that must not move.
func (m *mover) fix(item int32) {
	if m != nil {
		m.model.Hold(m.slot[item], true)
	}
}

func (m *mover) note(item, slot int32) {
	m.slot[item] = slot
	for int(slot) >= len(m.item) {
		m.item = append(m.item, -1)
	}
	m.item[slot] = item
}

// left reports to the model an item that was removed.
func (m *mover) left(item int32) {
	if m != nil {
		m.model.Remove(m.slot[item])
		m.slot[item] = -1
	}
}

// rescue places an item by moves of others and reports whether it did.
func (r *Replayer) rescue(now float64, request, number int32) bool {
	u := &r.run
	if u.opt.Repair == nil || u.mover == nil {
		return false
	}
	most := min(float64(u.opt.Repair.Chain), math.Floor(u.opt.Repair.Budget*float64(u.out.Placed))-float64(u.mover.repaired))
	most = min(most, u.mover.repairs.left(now, u.opt.Repair.PerHour))
	if most < 1 {
		return false
	}
	r.returned(now, -1)
	list, ok := u.mover.model.MakeRoom(r.trace.Requests[request].App, int(most))
	if !ok {
		return false
	}
	u.mover.repaired += len(list) - 1
	u.mover.repairs.spend(len(list) - 1)
	start := now
	for _, m := range list {
		if m.From != defrag.Nowhere {
			r.send(u.mover.item[m.Item], start, start+u.opt.Repair.Takes)
			start += u.opt.Repair.Takes
			r.move(now, m)
			continue
		}
		item := binpack.Item{App: r.trace.Requests[request].App}
		u.mover.note(r.base[request]+number, int32(m.Item))
		r.send(r.base[request]+number, now, start)
		r.stand(item.App, m.To, m.Devices)
		r.notePlaced(now, request, number, r.state.MachineAt(m.To.Line, m.To.Index), m.Devices)
	}
	return true
}

// rebalance empties machines at all ticks before a time.
func (r *Replayer) rebalance(before float64) {
	u := &r.run
	m, opt := u.mover, u.opt.Rebalance
	if m == nil {
		return
	}
	if math.IsNaN(u.tally.last) {
		m.first, m.repairs.since, m.drains.since = before, before, before
		return
	}
	if opt == nil {
		return
	}
	for {
		now := m.first + (m.ticks+1)*opt.Every
		if now >= before {
			return
		}
		m.ticks++
		if m.first+(m.ticks+1)*opt.Every <= now {
			return // the time between two ticks is negligible against that between the events
		}
		if now < m.busy {
			m.skip(min(before, m.busy), opt.Every)
			continue
		}
		r.returned(now, -1)
		share := opt.Moves * float64(r.state.AliveTotal())
		most := int(min(share, m.drains.left(now, opt.PerHour)))
		if m.unchanged == m.model.Changes()+1 && most <= m.tried { // the same search finds the same: nothing
			m.skip(m.changes(before, share, opt.PerHour), opt.Every)
			continue
		}
		u.tally.mark(r, now)
		u.tally.reach(r, now)
		list := m.model.Drain(context.Background(), most)
		m.drains.spend(len(list))
		m.busy = now
		for _, one := range list {
			r.send(m.item[one.Item], m.busy, m.busy+opt.Takes)
			m.busy += opt.Takes
			from := r.where[m.item[one.Item]]
			r.move(now, one)
			m.vacate(from, m.busy)
		}
		m.unchanged, m.tried = 0, most
		if len(list) == 0 {
			m.unchanged = m.model.Changes() + 1
		}
	}
}

// skip passes over the ticks before a time, but for the last, since times are rounded.
func (m *mover) skip(until, every float64) {
	m.ticks = max(m.ticks, math.Ceil((until-m.first)/every)-2)
}

// changes is the first time up to which a search that found nothing finds nothing again.
func (m *mover) changes(before, share, perHour float64) float64 {
	if more := float64(m.tried) + 1; perHour > 0 && share >= more {
		before = min(before, m.drains.reaches(more, perHour))
	}
	for _, a := range m.away {
		before = min(before, a.till)
	}
	return before
}

// move carries out a move of the model.
func (r *Replayer) move(now float64, m defrag.Move) {
	u := &r.run
	item := u.mover.item[m.Item]
	at, _ := slices.BinarySearch(r.base, item+1)
	request := int32(at - 1)
	app := r.trace.Requests[request].App
	r.clear(app, item)
	r.state.Moved()
	r.stand(app, m.To, m.Devices)
	r.where[item] = r.state.MachineAt(m.To.Line, m.To.Index)
	r.keepDevices(item, m.Devices)
	u.out.Moves++
	if u.opt.Record != nil {
		u.opt.Record(Decision{
			Time: now, Request: request, Item: item - r.base[request], Kind: Move, Machine: r.where[item], Devices: m.Devices,
		})
	}
}

// stand books an item on the target of a move.
func (r *Replayer) stand(app int32, to defrag.Position, devices []binpack.Device) {
	m := r.state.MachineAt(to.Line, to.Index)
	if !r.state.Fits(app, m) {
		panic("cerebro: a move to a machine that does not take the item")
	}
	if err := r.state.PlaceAs(app, m, devices); err != nil {
		panic("cerebro: " + err.Error())
	}
	if r.run.checker != nil {
		r.run.out.Violations += violations(r.run.checker.Place(app, to.Line, to.Index, devices))
	}
}

// clear removes an item from its machine.
func (r *Replayer) clear(app, item int32) {
	m := r.where[item]
	r.state.Remove(app, m, r.devices[item])
	if r.run.checker != nil {
		line, index := r.state.Position(m)
		r.run.out.Violations += violations(r.run.checker.Remove(app, line, index, r.devices[item]))
	}
	delete(r.devices, item)
	r.where[item] = -1
}

// opens reports whether an item opens a machine because it fits on no machine in use.
func (r *Replayer) opens(app, m int32, err error) bool {
	if err != nil {
		return errors.Is(err, binpack.ErrNoFit)
	}
	u := &r.run
	if u.mover == nil || r.trace.Instance.Fleet == binpack.Fixed || r.state.Items(m) > 0 {
		return false
	}
	u.mover.fits = r.state.Feasible(app, u.mover.fits[:0])
	return !slices.ContainsFunc(u.mover.fits, func(m int32) bool { return r.state.Items(m) > 0 })
}
