package binpack

import (
	"fmt"
	"math"
	"slices"
)

// judgeZone checks the hard limits and rules by zone after a machine has received an item.
func (c *Checker) judgeZone(app int32, at position) []error {
	var bad []error
	group, zone := c.inst.Apps[app].Group, c.inst.Machines[at.line].Zone
	name, g, limits := c.inst.Groups[group].Name, &c.groups[group], c.inst.Groups[group].Zone
	bound := limits.Limit > 0 || limits.SpreadMin > 1 || limits.Skew > 0
	switch {
	case zone == "" && bound:
		return []error{fmt.Errorf("the machine has no zone, and group %s has a limit by zone", name)}
	case zone == "":
		return nil
	}
	number := c.zones[at.line]
	count := g.zones[number]
	if limits.Limit > 0 && count > limits.Limit {
		bad = append(bad, fmt.Errorf("%d of group %s in zone %s, limit %d", count, name, zone, limits.Limit))
	}
	in := int32(0)
	for other, n := range g.zones {
		if other > 0 && n > 0 {
			in++
		}
	}
	if count > 1 && in < limits.SpreadMin {
		bad = append(bad, fmt.Errorf("group %s in %d zones, spread %d", name, in, limits.SpreadMin))
	}
	if limits.Skew > 0 {
		if least := c.leastInZone(app); count-least > limits.Skew {
			bad = append(bad, fmt.Errorf("%d of group %s in zone %s, %d in another, skew %d", count, name, zone, least, limits.Skew))
		}
	}
	for _, r := range g.byZone {
		a, b := c.groups[r.A].zones[number], c.groups[r.B].zones[number]
		if a > 0 && b > r.Max {
			bad = append(bad, fmt.Errorf("rule by zone %s, %s, %d: %d in zone %s", c.inst.Groups[r.A].Name, c.inst.Groups[r.B].Name, r.Max, b, zone))
		}
	}
	return bad
}

// leastInZone is the fewest items of the group in any zone with machines that the app may use.
func (c *Checker) leastInZone(app int32) int32 {
	a, least := c.inst.Apps[app], int32(math.MaxInt32)
	for _, p := range c.places {
		if a.Types == nil || slices.Contains(a.Types, p.typ) {
			least = min(least, c.groups[a.Group].zones[p.zone])
		}
	}
	return least
}

// A place is a type of machines in a zone.
type place struct {
	typ, zone int32
}

// placesOf lists the types with their zones that a fleet has machines of.
func placesOf(machines []MachineLine, zones []int32) (all []place) {
	seen := map[place]bool{}
	for line, m := range machines {
		p := place{m.Type, zones[line]}
		if p.zone > 0 && m.Count != 0 && !seen[p] {
			seen[p] = true
			all = append(all, p)
		}
	}
	return all
}
