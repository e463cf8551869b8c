package plan

import (
	"math"
	"slices"

	"github.com/sigma-scheduler/sigma/binpack"
)

// stand adds the machines that hold items already.
func (p *planner) stand(standing []Machine) {
	for _, s := range standing {
		m := p.addSlot()
		p.standing[m] = slices.Clone(s.Items)
		p.setKind(m, p.kindOfLine[s.Line])
		p.putStanding(m)
		p.standDevices(m, s)
	}
}

func (p *planner) putStanding(m int32) {
	for _, e := range p.standing[m] {
		for range e.Count {
			p.put(e.App, m)
		}
	}
}

// wait makes n more items of an app wait.
func (p *planner) wait(a int32, n int64) {
	p.left[a] += n
	p.leftVolume += n * p.size[a]
	switch {
	case p.left[a] == 0 && p.waitAt[a] >= 0:
		at, last := p.waitAt[a], p.waiting[len(p.waiting)-1]
		p.waiting[at], p.waitAt[last] = last, at
		p.waiting = p.waiting[:len(p.waiting)-1]
		p.waitAt[a] = -1
	case p.left[a] > 0 && p.waitAt[a] < 0:
		p.waitAt[a] = int32(len(p.waiting))
		p.waiting = append(p.waiting, a)
	}
}

// addSlot makes room for one more machine, closed.
func (p *planner) addSlot() int32 {
	m := int32(len(p.kind))
	if int(m) >= p.words*64 {
		words := max(4, 2*p.words)
		rows := make([]uint64, len(p.size)*words)
		for a := range p.size {
			copy(rows[a*words:], p.blocked[a*p.words:(a+1)*p.words])
		}
		p.blocked = rows
		p.roomy = append(p.roomy, make([]uint64, words-p.words)...)
		p.words = words
	}
	p.kind = append(p.kind, -1)
	for d := range p.free {
		p.free[d] = append(p.free[d], 0)
	}
	p.slack = append(p.slack, 0)
	p.on = append(p.on, make([]binpack.Entry, 0, 16))
	p.standing = append(p.standing, nil)
	p.taken = append(p.taken, nil)
	p.stamp = append(p.stamp, 0)
	return m
}

// setKind turns an empty slot into a machine of a kind, or closes it with -1.
func (p *planner) setKind(m, k int32) {
	if old := p.kind[m]; old >= 0 {
		p.spent -= p.price[old]
		p.zones.opened(old, -1)
		if p.stock[old] != math.MaxInt {
			p.stock[old]++
		}
	}
	p.kind[m] = k
	if k < 0 {
		p.roomy[m>>6] &^= 1 << (m & 63)
		p.slack[m] = 0
		return
	}
	p.spent += p.price[k]
	p.zones.opened(k, 1)
	if p.stock[k] != math.MaxInt {
		p.stock[k]--
	}
	p.slack[m] = p.kindSlack[k]
	for d := range p.free {
		p.free[d][m] = p.capacity[k][d]
	}
	p.setRoomy(m)
	if len(p.kinds) == 1 {
		return
	}
	for a, ok := range p.takes[k] {
		bit := uint64(1) << (m & 63)
		if ok {
			p.blocked[a*p.words+int(m>>6)] &^= bit
		} else {
			p.blocked[a*p.words+int(m>>6)] |= bit
		}
	}
}

func (p *planner) setRoomy(m int32) {
	for d, least := range p.least {
		if p.free[d][m] < least {
			p.roomy[m>>6] &^= 1 << (m & 63)
			return
		}
	}
	p.roomy[m>>6] |= 1 << (m & 63)
}

// put puts an item on a machine.
func (p *planner) put(a, m int32) {
	app := &p.inst.Apps[a]
	for d, need := range app.Demand {
		p.free[d][m] -= need
	}
	p.slack[m] -= p.size[a]
	p.setRoomy(m)
	p.zones.add(p.kind[m], app.Group, 1)
	count := p.addEntry(a, app.Group, m)
	if count == 1 {
		p.onGroup[app.Group]++
	}
	p.close(app.Group, m, count)
}

// addEntry counts one more item and returns the count of its group.
func (p *planner) addEntry(a, group, m int32) int32 {
	list := p.on[m]
	count, at := int32(1), -1
	for i := range list {
		if list[i].Group == group {
			count += list[i].Count
			if list[i].App == a {
				at = i
			}
		}
	}
	if at >= 0 {
		list[at].Count++
	} else {
		p.on[m] = append(list, binpack.Entry{App: a, Group: group, Count: 1})
	}
	return count
}

func (p *planner) count(group, m int32) int32 {
	n := int32(0)
	for _, e := range p.on[m] {
		if e.Group == group {
			n += e.Count
		}
	}
	return n
}

// close closes a machine to the groups that the count-th item of a group excludes.
func (p *planner) close(group, m, count int32) {
	if limit := p.inst.Groups[group].Limit; limit > 0 && count >= limit {
		p.block(group, m)
	}
	for _, r := range p.out[group] { // (group, B, k): no B beyond k
		if r.Max == 0 || p.count(r.B, m) >= r.Max {
			p.block(r.B, m)
		}
	}
	for _, r := range p.into[group] { // (A, group, k): no A next to more than k
		if count > r.Max {
			p.block(r.A, m)
		}
		if r.Max > 0 && count >= r.Max && p.count(r.A, m) > 0 {
			p.block(group, m)
		}
	}
}

func (p *planner) block(group, m int32) {
	for _, a := range p.members[group] {
		p.blocked[int(a)*p.words+int(m>>6)] |= 1 << (m & 63)
	}
}

func (p *planner) unblock(group, m int32) {
	takes := p.takes[p.kind[m]]
	for _, a := range p.members[group] {
		if takes[a] {
			p.blocked[int(a)*p.words+int(m>>6)] &^= 1 << (m & 63)
		}
	}
}

// empty removes all new items from a machine; they wait.
func (p *planner) empty(m int32) {
	k := p.kind[m]
	if k < 0 || len(p.on[m]) == 0 {
		return
	}
	for i, e := range p.on[m] {
		p.wait(e.App, int64(e.Count))
		p.zones.add(k, e.Group, -e.Count)
		first := true
		for _, f := range p.on[m][:i] {
			first = first && f.Group != e.Group
		}
		if !first {
			continue
		}
		p.onGroup[e.Group]--
		p.unblock(e.Group, m)
		for _, r := range p.out[e.Group] {
			p.unblock(r.B, m)
		}
		for _, r := range p.into[e.Group] {
			p.unblock(r.A, m)
		}
	}
	p.on[m] = p.on[m][:0]
	for d := range p.free {
		p.free[d][m] = p.capacity[k][d]
	}
	p.slack[m] = p.kindSlack[k]
	p.setRoomy(m)
	if len(p.standing[m]) > 0 {
		for _, e := range p.standing[m] {
			p.wait(e.App, -int64(e.Count))
		}
		p.putStanding(m)
	}
}
